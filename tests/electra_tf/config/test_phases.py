"""Stages and lengths of a run, and runs that go through them."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.phases import Stage, training_phases
from electra_tf.interop.formats import make_format
from electra_tf.interop.native_models import PRETRAINING
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining import run
from electra_tf.training.learning_rate import StagedSchedule, WarmupPolynomialDecay
from electra_tf.util.errors import UserError
from flags.records import training_records
from tests import pretraining_runs
from tests.conftest import VOCAB_SIZE, make_record
from tests.electra_tf.objectives.numpy_losses import TWO_STAGE
from tests.electra_tf.pretraining.test_run import log_records, quiet, weights_of


def test_phases_end_where_a_stage_or_a_length_does(make_config):
    config = make_config(
        num_train_steps=20,
        length_curriculum=(4, 8),
        length_curriculum_share=0.8,
        pretrain_tfrecords="data/{length}/*",
    )
    phases = training_phases(config, [Stage("first", 10), Stage("second", 10)])
    assert [(p.first_step, p.end_step, p.stage, p.seq_length) for p in phases] == [
        (0, 8, 0, 4),
        (8, 10, 0, 8),
        (10, 16, 1, 8),
        (16, 20, 1, 16),
    ]
    assert [p.starts_stage for p in phases] == [True, False, True, False]
    assert [p.length_first_step for p in phases] == [0, 8, 8, 16]
    assert training_records(config).patterns == {
        4: "data/4/*",
        8: "data/8/*",
        16: "data/16/*",
    }


def test_a_curriculum_without_records_of_a_length_is_refused(make_config):
    config = make_config(length_curriculum=(8,), pretrain_tfrecords="data/*")
    with pytest.raises(UserError, match=r"put \{length\}"):
        training_records(config)


def test_each_stage_has_a_schedule_of_its_own():
    schedules = [WarmupPolynomialDecay(1.0, steps, warmup_steps=2) for steps in (4, 8)]
    staged = StagedSchedule(schedules)
    rates = [float(staged(step)) for step in range(12)]
    expected = [float(schedules[0](i)) for i in range(4)]
    expected += [float(schedules[1](i)) for i in range(8)]
    np.testing.assert_allclose(rates, expected)


def weights_at(config, step: int, part: str) -> dict[str, np.ndarray]:
    """Returns the weights of a part of the model, by the authors' names without the part."""
    checkpoint = make_format("electra_tf", [PRETRAINING]).read(
        f"{config.model_dir}/ckpt-{step}"
    )
    prefix = f"{part}/"
    return {name.removeprefix(prefix): v for name, v in checkpoint.part(prefix).items()}


def test_two_stages_freeze_the_generator_and_start_from_it(make_config, tiny_data, tmp_path):
    common = {
        **TWO_STAGE,
        "num_train_steps": 8,
        "save_checkpoints_steps": 1,
        "iterations_per_loop": 1,
        "keep_checkpoint_max": 0,
        "eval_tfrecords": str(tiny_data / "pretrain_tfrecords" / "*"),
    }
    config = make_config(**common, model_dir=str(tmp_path / "whole"))
    values = pretraining_runs.train(config, quiet)
    assert {"loss", "disc_loss", "disc_auc"} <= set(values)
    records = log_records(config)
    first = [r for r in records if r["step"] <= 4 and r["kind"] == "train"]
    assert all("gen_loss" in r and "disc_loss" not in r for r in first)
    second = [r for r in records if r["step"] > 4 and r["kind"] == "train"]
    assert all("disc_loss" in r and "gen_loss" not in r for r in second)

    generators = [weights_at(config, step, "generator") for step in (1, 4, 8)]
    for name, value in generators[1].items():
        np.testing.assert_array_equal(value, generators[2][name])
    assert any(np.any(v != generators[0][n]) for n, v in generators[1].items())
    # One update of a warm-up moves a copy by little, and random weights are far away.
    discriminator, generator = weights_at(config, 5, "electra"), generators[1]
    for name, value in generator.items():
        np.testing.assert_allclose(discriminator[name], value, atol=2e-3)

    for stop in (4, 6):
        part = make_config(**common, model_dir=str(tmp_path / f"stopped_{stop}"))
        copy_until(pathlib.Path(config.model_dir), pathlib.Path(part.model_dir), stop)
        pretraining_runs.train(part, quiet)
        for name, value in weights_of(config, 8).items():
            np.testing.assert_array_equal(weights_of(part, 8)[name], value, err_msg=name)


def copy_until(source: pathlib.Path, target: pathlib.Path, step: int) -> None:
    """Makes a run that was stopped after a step out of one that was not."""
    target.mkdir()
    for path in [source / "config.json", source / "vocab.txt", *source.glob(f"ckpt-{step}.*")]:
        (target / path.name).write_bytes(path.read_bytes())
    (target / "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{step}"\n')


def test_a_length_curriculum_reads_each_lengths_records_and_resumes(
    make_config, tiny_data, tmp_path
):
    data = tmp_path / "data"
    for length in (8, 16):
        folder = data / f"records_{length}"
        folder.mkdir(parents=True)
        generator = np.random.default_rng(length)
        with tf.io.TFRecordWriter(str(folder / "pretrain_data.tfrecord-0-of-1")) as writer:
            for _ in range(40):
                writer.write(make_record(generator, length))
    common = {
        "pretrain_tfrecords": str(data / "records_{length}" / "*"),
        "objective": "mlm",
        "length_curriculum": (8,),
        "length_curriculum_share": 0.5,
        "num_train_steps": 6,
        "save_checkpoints_steps": 1,
        "iterations_per_loop": 1,
        "keep_checkpoint_max": 0,
    }
    config = make_config(**common, model_dir=str(tmp_path / "whole"))
    pretraining_runs.train(config, quiet)
    rates = [
        r["tokens_per_second"] / r["sequences_per_second"]
        for r in log_records(config)
        if r["kind"] == "train"
    ]
    np.testing.assert_allclose(rates, [8, 8, 8, 16, 16, 16])
    for stop in (2, 3, 5):
        part = make_config(**common, model_dir=str(tmp_path / f"stopped_{stop}"))
        copy_until(pathlib.Path(config.model_dir), pathlib.Path(part.model_dir), stop)
        pretraining_runs.train(part, quiet)
        for name, value in weights_of(config, 6).items():
            np.testing.assert_array_equal(weights_of(part, 6)[name], value, err_msg=name)


def test_a_generator_rate_of_its_own_moves_the_generator_alone(make_config, tmp_path):
    runs = {}
    for rate in (None, 0.0):
        config = make_config(
            generator_learning_rate=rate,
            num_train_steps=1,
            num_warmup_steps=0,
            embedding_sharing="none",
            lr_decay_power=0.0,
            model_dir=str(tmp_path / str(rate)),
        )
        pretraining_runs.train(config, quiet)
        runs[rate] = config
    for part, is_moved in (("generator", True), ("electra", False)):
        same, slow = (weights_at(runs[rate], 1, part) for rate in (None, 0.0))
        kernels = [name for name in same if name.endswith("kernel")]
        assert kernels
        for name in kernels:
            assert np.any(same[name] != slow[name]) == is_moved, name


def test_masking_weighs_tokens_by_their_counts_in_the_records(
    make_config, tiny_data, monkeypatch
):
    built = []
    original = run.create_training_state

    def create(*arguments):
        state = original(*arguments)
        built.append(state[0])
        return state

    monkeypatch.setattr(run, "create_training_state", create)
    config = make_config(masking="strategic", num_train_steps=1)
    pretraining_runs.train(config, quiet)
    expected = np.zeros(VOCAB_SIZE, np.int64)
    for path in sorted((tiny_data / "pretrain_tfrecords").iterdir()):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            ids, mask = (features[n].int64_list.value for n in ("input_ids", "input_mask"))
            np.add.at(expected, np.array(ids)[np.array(mask) > 0], 1)
    assert len(set(expected[5:])) > 5
    (model,) = built
    np.testing.assert_array_equal(model.masking.tokens.counts, expected)
    # The weight of a token is the inverse root of its count; the noise is that of its place.
    inputs = tf.constant([np.arange(5, 21), np.arange(20, 36)])
    key = Randomness(0, 0).key("masking")
    order = model.masking.order(inputs, tf.ones_like(inputs, bool), key, 0)
    flipped = model.masking.order(inputs[::-1], tf.ones_like(inputs, bool), key, 0)
    ratio = (order.priority / flipped.priority).numpy()
    counts = expected[inputs.numpy()] + 1.0
    np.testing.assert_allclose(ratio, np.sqrt(counts / counts[::-1]), rtol=1e-4)


def test_records_of_other_lengths_are_beside_the_default_folder(make_config):
    config = make_config(length_curriculum=(8,))
    folder = f"{config.data_dir}/pretrain_tfrecords"
    patterns = training_records(config).patterns
    assert patterns[16].startswith(f"{folder}/")
    assert patterns[8] == patterns[16].replace(folder, f"{folder}_8")
