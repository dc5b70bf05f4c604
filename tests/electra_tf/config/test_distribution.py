"""Which strategies, devices and workers the flags may ask for."""

import json
import socket

import pytest
import tensorflow as tf

from electra_tf.config.distribution import check_batch_size, warn_of_repeated_examples
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.training.distribution import strategies
from electra_tf.training.distribution.cluster import (
    Cluster,
    cluster_of_environment,
    find_cluster,
)
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.processes import free_ports

TWO = ("a:1", "b:2")


def make(**overrides) -> PretrainingConfig:
    return PretrainingConfig.create(data_dir="d", model_name="m", **overrides)


def tf_config(task: dict | None = None, **jobs: list[str]) -> dict[str, str]:
    task = {"type": "worker", "index": 1} if task is None else task
    return {"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"strategy": "many"}, "--strategy must be one of"),
        ({"num_gpus": 0}, "--num_gpus must be positive"),
        ({"num_gpus": 2}, "--num_gpus=2 needs --strategy=mirrored"),
        ({"num_gpus": 1, "device": "cpu"}, "mutually exclusive"),
        ({"num_virtual_cpus": 2}, "--num_virtual_cpus needs --strategy=mirrored"),
        (
            {"num_virtual_cpus": 2, "strategy": "mirrored", "device": "gpu"},
            "--num_virtual_cpus cannot be combined with --num_gpus",
        ),
        ({"workers": TWO, "task_index": 0}, "--workers needs --strategy=multi_worker"),
        ({"task_index": 0}, "--task_index needs --strategy=multi_worker"),
        ({"strategy": "multi_worker", "workers": TWO}, "must be passed together"),
        ({"strategy": "multi_worker", "task_index": 0}, "must be passed together"),
        ({"strategy": "multi_worker", "workers": TWO, "task_index": 2}, "between 0 and 1"),
        (
            {"strategy": "multi_worker", "workers": ("a",), "task_index": 0},
            "--workers: 'a' must be host:port",
        ),
        (
            {"strategy": "multi_worker", "workers": ("::1:2222",), "task_index": 0},
            r"--workers: '::1:2222' must be host:port, such as .* or \[::1\]:2222",
        ),
        (
            {"strategy": "multi_worker", "workers": ("a:1", "a:1"), "task_index": 0},
            "--workers lists an address twice",
        ),
        ({"shard_by": "line"}, "--shard_by must be one of record, file"),
        ({"tpu_zone": "z"}, "--tpu_zone needs --strategy=tpu"),
        ({"num_tpu_cores": 8}, "--num_tpu_cores=8 needs --strategy=tpu"),
        ({"use_tpu": True, "strategy": "mirrored"}, "--use_tpu and --strategy=mirrored"),
        ({"use_tpu": True, "device": "gpu"}, "--strategy=tpu cannot be combined with --device"),
    ],
)
def test_what_is_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        make(**overrides)


def test_the_authors_tpu_settings():
    config = make(use_tpu=True, tpu_name="t", tpu_zone="z", gcp_project="p", num_tpu_cores=8)
    assert (config.strategy, config.precision) == ("tpu", "mixed_bfloat16")
    assert make(use_tpu=True, precision="float32").precision == "float32"
    without = make(use_tpu=False, num_tpu_cores=1)  # their defaults
    assert (without.strategy, without.precision) == ("one_device", "float32")


def test_tpu_settings_are_ignored_if_use_tpu_is_false():
    settings = {"tpu_name": "t", "tpu_zone": "z", "gcp_project": "p", "num_tpu_cores": 8}
    config = make(use_tpu=False, tpu_job_name="worker", **settings)
    assert (config.strategy, config.precision) == ("one_device", "float32")
    assert (config.tpu_name, config.num_tpu_cores) == (None, None)
    on_tpu = make(use_tpu=False, strategy="tpu", **settings)
    assert (on_tpu.strategy, on_tpu.tpu_name) == ("tpu", "t")


def test_tf_config_names_the_cluster():
    assert cluster_of_environment(tf_config(worker=list(TWO))) == Cluster(TWO, 1)
    with_chief = tf_config(chief=["c:1"], worker=list(TWO))
    assert cluster_of_environment(with_chief) == Cluster(("c:1", *TWO), 2)
    chief = tf_config({"type": "chief", "index": 0}, chief=["c:1"], worker=list(TWO))
    assert cluster_of_environment(chief).task_index == 0
    as_text = {"type": "worker", "index": "1"}
    assert cluster_of_environment(tf_config(as_text, worker=list(TWO))) == Cluster(TWO, 1)
    assert cluster_of_environment({"TF_CONFIG": "{}"}) is None
    assert cluster_of_environment({}) is None


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG is not valid JSON"),
        ({"TF_CONFIG": "[1]"}, "must be a JSON object"),
        ({"TF_CONFIG": '{"cluster": {"worker": "a:1"}}'}, "list of addresses"),
        (tf_config(worker=["a:1"], ps=["b:1"]), "unsupported jobs ps"),
        (tf_config(worker=["a"]), "TF_CONFIG: 'a' must be host:port"),
        (tf_config(worker=["a:99999"]), "host:port"),
        (tf_config(worker=["http://a:1"]), "TF_CONFIG: 'http://a:1' must be host:port"),
        (tf_config(worker=["[::1:1"]), "host:port"),
        (tf_config(worker=["a..b:1"]), "host:port"),
        (tf_config(worker=["a:1", "a:1"]), "lists an address twice"),
        (tf_config(worker=["a:1"]), '"task" must name one of the workers.*"index": 1'),
        (tf_config({"type": "evaluator", "index": 0}, worker=["a:1"]), '"task" must name'),
        (tf_config({"type": "worker"}, worker=["a:1"]), '"task" must name'),
        (tf_config({"type": ["worker"], "index": 0}, worker=["a:1"]), '"task" must name'),
        (tf_config({"type": "worker", "index": 0.7}, worker=["a:1"]), '"task" must name'),
        ({"TF_CONFIG": "[" * 100_000}, "TF_CONFIG is not valid JSON"),
    ],
)
def test_a_malformed_tf_config_is_refused(environment, message):
    with pytest.raises(UserError, match=message):
        cluster_of_environment(environment)


def test_flags_and_tf_config_must_agree():
    environment = tf_config(worker=list(TWO))
    assert find_cluster(TWO, 1, environment) == find_cluster((), None, environment)
    assert find_cluster(TWO, 0, {}) == Cluster(TWO, 0)
    with pytest.raises(UserError, match=r"workers a:1,b:2, index 1\) differ"):
        find_cluster(TWO, 0, environment)
    with pytest.raises(UserError, match="pass --workers"):
        find_cluster((), None, {})


def test_a_cluster_without_the_strategy_for_it_is_refused():
    with pytest.raises(UserError, match="--strategy is one_device: unset TF_CONFIG or, to"):
        create_strategy(make(), tf_config(worker=list(TWO)))


@pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="a GPU is there to be used"
)
@pytest.mark.parametrize(
    "overrides",
    [
        {"device": "gpu"},
        {"num_gpus": 1},
        {"strategy": "mirrored", "num_gpus": 2},
        {"strategy": "multi_worker", "workers": TWO, "task_index": 0, "device": "gpu"},
    ],
)
def test_a_gpu_that_is_not_there_is_an_error(overrides):
    with pytest.raises(UserError, match="but TensorFlow finds 0 GPUs"):
        create_strategy(make(**overrides), {})


def test_a_tpu_that_is_not_there_is_an_error():
    with pytest.raises(
        UserError, match="--strategy=tpu: cannot connect to a TPU at this machine"
    ):
        create_strategy(make(strategy="tpu"), {})


def test_an_address_without_a_tpu_is_not_waited_for():
    (port,) = free_ports(1)
    config = make(strategy="tpu", tpu_name=f"grpc://127.0.0.1:{port}")
    with pytest.raises(UserError, match=r"at --tpu_name=grpc://127.* refused"):
        create_strategy(config, {})


@pytest.mark.parametrize("name", ["grpc://", "local"])
def test_a_tpu_is_named_before_tensorflow_waits_for_it(name, monkeypatch, capsys):
    def fail(resolver):
        raise ValueError("no answer")

    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", fail)
    with socket.create_server(("127.0.0.1", 0)) as server:
        if name != "local":
            name += f"127.0.0.1:{server.getsockname()[1]}"
        where = f"--tpu_name={name}"
        with pytest.raises(UserError, match=f"cannot connect to a TPU at {where}: no answer"):
            create_strategy(make(strategy="tpu", tpu_name=name), {})
    assert f"Connecting to the TPU at {where} …" in capsys.readouterr().err


def test_a_strategy_that_is_not_made_is_not_taken_for_one_device():
    config = make()
    object.__setattr__(config, "strategy", "parameter_server")
    with pytest.raises(ValueError, match="makes none for --strategy=parameter_server"):
        create_strategy(config, {})


def test_virtual_cpus_become_replicas():
    strategy = create_strategy(make(strategy="mirrored", num_virtual_cpus=2), {})
    assert strategy.num_replicas_in_sync == 2
    with pytest.raises(
        UserError, match="--num_virtual_cpus=5: TensorFlow is already initialized"
    ):
        create_strategy(make(strategy="mirrored", num_virtual_cpus=5), {})


def test_a_global_batch_has_to_come_out_even():
    check_batch_size("--train_batch_size", 8, 4)
    with pytest.raises(UserError, match=r"--train_batch_size=10 .* pass 8 or 12"):
        check_batch_size("--train_batch_size", 10, 4)
    with pytest.raises(UserError, match=r"over 4 replicas: pass 4$"):
        check_batch_size("--train_batch_size", 3, 4)


def test_a_batch_larger_than_the_data_is_warned_of(capsys):
    warn_once.cache_clear()
    warn_of_repeated_examples(8, 8)
    assert capsys.readouterr().err == ""
    warn_of_repeated_examples(8, 7)
    assert (
        "--train_batch_size=8 is more than the 7 training examples" in capsys.readouterr().err
    )


def test_a_gpu_that_tensorflow_cannot_use_is_warned_of(tmp_path, monkeypatch, capsys):
    device = tmp_path / "nvidia0"
    monkeypatch.setattr(strategies, "_NVIDIA_DEVICE", device)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    warn_once.cache_clear()
    create_strategy(make(), {})
    assert capsys.readouterr().err == ""
    device.touch()
    create_strategy(make(device="cpu"), {})
    assert capsys.readouterr().err == ""
    create_strategy(make(), {})
    assert "has an NVIDIA GPU, but TensorFlow does not find it" in capsys.readouterr().err


def test_batches_that_replicas_cannot_split_evenly_name_what_would_do():
    with pytest.raises(
        UserError, match=r"over 2 replicas with --gradient_accumulation_steps=3 each: pass 6 or"
    ):
        check_batch_size("--train_batch_size", 8, 2, accumulation_steps=3)
    with pytest.raises(UserError, match=r"over 4 replicas: pass 4$"):
        check_batch_size("--train_batch_size", 3, 4)
    check_batch_size("--train_batch_size", 12, 2, accumulation_steps=3)


def test_several_workers_may_be_named_by_the_environment():
    config = make(strategy="multi_worker")
    assert (config.workers, config.task_index) == (None, None)
