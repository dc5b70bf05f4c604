"""What follows from what in a fine-tuning configuration, and what is refused."""

import dataclasses
import json
import os

import pytest

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig


def create(tmp_path, **given) -> FinetuningConfig:
    return FinetuningConfig.create(**{"data_dir": str(tmp_path), "model_name": "m", **given})


def describe_model(tmp_path, **hyperparameters) -> None:
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    content = {"hyperparameters": hyperparameters, "variables": {}}
    (folder / "config.json").write_text(json.dumps(content))


def test_values_of_another_type_are_refused(tmp_path):
    for given, message in (
        ({"task_names": "cola"}, "--task_names must be a list, not 'cola'"),
        ({"do_train": "false"}, "--do_train must be true or false, not 'false'"),
    ):
        with pytest.raises(UserError, match=message):
            create(tmp_path, **given)


@pytest.mark.parametrize(
    ("task", "epochs", "length"),
    [
        ("cola", 3.0, 128),
        ("sst", 3.0, 128),
        ("mrpc", 3.0, 128),
        ("qqp", 3.0, 128),
        ("mnli", 3.0, 128),
        ("qnli", 3.0, 128),
        ("rte", 10.0, 128),
        ("sts", 10.0, 128),
        ("squad", 2.0, 512),
        ("squadv1", 2.0, 512),
        ("newsqa", 2.0, 512),
        ("triviaqa", 2.0, 512),
        ("searchqa", 2.0, 512),
        ("naturalqs", 3.0, 128),  # neither "squad" nor "qa" is in its name
        ("chunk", 3.0, 256),
    ],
)
def test_defaults_of_a_single_task(tmp_path, task, epochs, length):
    config = create(tmp_path, task_names=(task,))
    assert (config.num_train_epochs, config.max_seq_length) == (epochs, length)


def test_several_tasks_have_the_common_defaults(tmp_path):
    config = create(tmp_path, task_names=("rte", "squad"))
    assert (config.num_train_epochs, config.max_seq_length) == (3.0, 128)


def test_defaults_of_large(tmp_path):
    config = create(tmp_path, model_size="large")
    assert (config.learning_rate, config.layerwise_lr_decay) == (5e-5, 0.9)
    assert create(tmp_path, model_size="large", learning_rate=1e-5).learning_rate == 1e-5


def test_defaults_of_a_size_that_the_checkpoint_tells(tmp_path):
    sizes = {"model_size": "large", "embedding_size": 1024, "vocab_size": 40}
    describe_model(tmp_path, **sizes)
    config = create(tmp_path)
    assert (config.learning_rate, config.layerwise_lr_decay) == (5e-5, 0.9)
    assert create(tmp_path, layerwise_lr_decay=0.5).layerwise_lr_decay == 0.5


def test_tpu_settings_are_ignored_if_use_tpu_is_false(tmp_path):
    config = create(tmp_path, use_tpu=False, tpu_name="t", num_tpu_cores=8)
    assert (config.strategy, config.tpu_name) == ("one_device", None)
    with pytest.raises(UserError, match="--tpu_name needs --strategy=tpu"):
        create(tmp_path, tpu_name="t")


def test_paths_are_the_authors(tmp_path):
    config = create(tmp_path, task_names=("cola", "rte"))
    model = f"{tmp_path}/models/m"
    assert config.model_dir == f"{model}/finetuning_models/cola,rte_model"
    assert config.results_txt == f"{model}/results/cola,rte_results.txt"
    assert config.preprocessed_data_dir == f"{model}/finetuning_tfrecords/cola,rte_tfrecords"
    assert config.raw_data_dir == f"{tmp_path}/finetuning_data"


def test_positions_that_are_not_interpolated_are_warned_of(tmp_path, capsys):
    overrides = {"hidden_size": 64, "max_position_embeddings": 48}
    describe_model(tmp_path, model_size="small", model_hparam_overrides=overrides)
    warn_once.cache_clear()
    stretched = create(tmp_path, max_seq_length=64, interpolate_positions=True)
    create(tmp_path, **json.loads(stretched.to_json()))  # of a model that is loaded
    assert "--interpolate_positions" not in capsys.readouterr().err
    message = "--interpolate_positions has no effect without a --max_seq_length above the"
    for given in ({"task_names": ("squad",)}, {"max_seq_length": 32}):
        warn_once.cache_clear()
        create(tmp_path, interpolate_positions=True, **given)
        assert f"{message} model's 48 position embeddings" in capsys.readouterr().err


def test_the_model_is_as_its_run_described_it(tmp_path):
    describe_model(
        tmp_path,
        model_size="small",
        model_hparam_overrides={"hidden_size": 64, "max_position_embeddings": 48},
        embedding_size=32,
        vocab_size=99,
        do_lower_case=False,
    )
    config = create(tmp_path, task_names=("chunk",))
    assert (config.encoder.hidden_size, config.encoder.embedding_size) == (64, 32)
    assert (config.vocab_size, config.do_lower_case) == (99, False)
    # A default that the model has no positions for is shortened, a given one refused.
    assert config.max_seq_length == 48
    with pytest.raises(
        UserError, match=r"--max_seq_length=64 exceeds .* 48 .*--interpolate_pos"
    ):
        create(tmp_path, max_seq_length=64)
    with pytest.raises(UserError, match="--max_seq_length must be positive, not 0"):
        create(tmp_path, max_seq_length=0)
    stretched = create(tmp_path, max_seq_length=64, interpolate_positions=True)
    assert (stretched.encoder.max_position_embeddings, stretched.max_seq_length) == (64, 64)
    assert (
        create(tmp_path, max_seq_length=32, interpolate_positions=True).encoder
        == config.encoder
    )
    # Random weights keep the shape; another size drops it.
    assert create(tmp_path, init_checkpoint="random").encoder == config.encoder
    assert create(tmp_path, model_size="base").encoder.hidden_size == 768


def test_the_vocabulary_size_may_be_an_override(tmp_path):
    config = create(tmp_path, model_hparam_overrides={"vocab_size": 700})
    assert (config.vocab_size, config.encoder.vocab_size) == (700, 700)
    with pytest.raises(UserError, match="--vocab_size=9 contradicts vocab_size 700"):
        create(tmp_path, model_hparam_overrides={"vocab_size": 700}, vocab_size=9)
    # As pre-training describes such a model.
    overrides = {"vocab_size": 700}
    described = {"embedding_size": 128, "vocab_size": 700, "model_hparam_overrides": overrides}
    describe_model(tmp_path, model_size="small", **described)
    assert create(tmp_path).encoder.vocab_size == 700


def test_buckets_end_at_the_longest(tmp_path):
    assert create(tmp_path, max_seq_length=60).length_buckets == (16, 24, 32, 48, 60)
    config = create(tmp_path, max_seq_length=128, length_buckets=(10, 200))
    assert config.length_buckets == (10, 128)


def test_folds_train_on_one_order_of_a_pair(tmp_path):
    config = create(tmp_path, task_names=("mrpc",), num_folds=3, double_unordered=True)
    assert config.double_unordered is False


def test_debug_keeps_away_from_real_models(tmp_path):
    config = create(tmp_path, debug=True)
    assert config.model_dir.endswith("chunk_model-debug")
    folder = os.path.join(config.pretrained_model_dir, "results-debug")
    assert config.results_dir == os.path.dirname(config.results_txt) == folder
    assert config.init_checkpoint == "random"
    encoder = config.encoder
    assert (encoder.num_hidden_layers, encoder.hidden_size) == (3, 144)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (4, 576)
    assert encoder.embedding_size == 128


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task_names": ()}, "--task_names is empty"),
        ({"task_names": ("cola", "cola")}, "cola more than once"),
        ({"num_trials": 0}, "--num_trials must be positive"),
        ({"num_trials": 2**33}, "--num_trials must be at most 4294967296"),
        ({"warmup_proportion": 1.5}, "--warmup_proportion must be in"),
        ({"layerwise_lr_decay": 1.1}, "--layerwise_lr_decay must be at most 1, not 1.1"),
        ({"num_trials": -1, "num_folds": 2}, "--num_trials=-1 never ends"),
        ({"num_trials": -1, "do_train": False}, "--num_trials=-1 never ends"),
        ({"num_folds": 1}, "--num_folds must be at least 2"),
        ({"num_train_epochs": 0.0}, r"--num_train_epochs must be positive, not 0\.0"),
        ({"train_batch_size": -8}, "--train_batch_size must be positive, not -8"),
        ({"predict_batch_size": 2**31}, "--predict_batch_size must be less than 2147483648"),
        ({"log_steps": 0}, "--log_steps must be positive, not 0"),
        ({"seed": -1}, "--seed must be from 0 to 4294967295, not -1"),
        ({"seed": 2**32 - 2, "num_trials": 3}, "--seed must be from 0 to 4294967293, not"),
        ({"max_seq_length": 7}, "--max_seq_length must be at least 8, not 7"),
        ({"length_buckets": (0, 8)}, "--length_buckets must be positive, not 0"),
        (
            {"strategy": "tpu", "bucket_by_length": True},
            "--strategy=tpu requires a single length: remove --bucket_by_length",
        ),
        ({"selection_fraction": 1.0}, "--selection_fraction must be between 0 and 1, not 1"),
        ({"selection_fraction": 0.2}, "--selection_fraction needs --num_folds and --keep_best"),
        (
            {"selection_fraction": 0.2, "num_folds": 3},
            "--selection_fraction needs --num_folds and --keep_best",
        ),
        ({"predict_output": "out.csv"}, "--predict_output must end in .jsonl or .tsv, not out"),
        (
            {"do_predict": True, "predict_file": "a.tsv", "task_names": ("cola", "rte")},
            "--do_predict needs a single task in --task_names: to predict with",
        ),
        (
            {"num_folds": 3, "write_test_outputs": True},
            "no single model to predict with: remove --do_predict and --write_test_outputs",
        ),
        ({"model_name": ""}, "--model_name is required"),
        (
            {"do_train": False, "init_checkpoint": "random"},
            "--init_checkpoint=random with --do_train=false: it has no fine-tuned heads",
        ),
        (
            {"do_train": False, "init_checkpoint": "other", "num_folds": 2},
            "--init_checkpoint=other with --do_train=false may have seen the held-out",
        ),
        ({"model_dir": ""}, "--model_dir is empty: pass a path"),
        ({"vocab_size": 0}, "--vocab_size must be positive, not 0"),
        ({"results_txt": ""}, "--results_txt is empty: pass a path"),
        ({"predict_output": ""}, "--predict_output is empty: pass a path"),
        ({"init_checkpoint": ""}, "--init_checkpoint is empty: pass a path"),
        ({"num_folds": 2, "task_names": ("cola", "rte")}, "--num_folds needs a single task"),
        ({"do_predict": True}, "--do_predict needs --predict_file"),
        (
            {"predict_file": "a/../new.jsonl", "predict_output": "new.jsonl"},
            "--predict_output=new.jsonl is the file that --predict_file reads",
        ),
        (
            {"vocab_file": "vocab.txt", "results_txt": "./vocab.txt"},
            "--results_txt=./vocab.txt is the file that --vocab_file reads",
        ),
        ({"do_train": False, "do_eval": False}, "Nothing to do"),
        ({"model_size": "tiny"}, "--model_size must be one of"),
        ({"early_stopping_patience": 0}, "--early_stopping_patience must be positive"),
        ({"precision": "float8"}, "--precision must be one of"),
        ({"label_smoothing": 1.0}, r"--label_smoothing must be at least 0 and below 1, not 1"),
        ({"freeze_layers": 13}, "--freeze_layers must be from 0 to the model's 12 layers, not"),
        ({"freeze_layers": -1}, "--freeze_layers must be from 0 to the model's 12 layers, not"),
        ({"window_pooling": "max"}, "--window_pooling needs --long_text=windows"),
        ({"window_stride": 9}, "--window_stride needs --long_text=windows"),
        (
            {"long_text": "windows", "window_stride": 31, "max_seq_length": 32},
            "--window_stride must be from 0 to 30",
        ),
        ({"long_text": "split"}, "--long_text must be one of truncate, windows, not 'split'"),
        ({"focal_gamma": -1.0}, "--focal_gamma must be at least 0, not -1"),
        ({"class_weights": "balance"}, "--class_weights must be none, balanced or positive"),
        (
            {"class_weights": "a=2", "task_names": ("cola", "rte")},
            "--class_weights with label names needs a single task",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        create(tmp_path, **given)


# As in the authors' code; and ranges of labels.
MAY_BE_NEGATIVE = {
    "layerwise_lr_decay",
    "num_trials",
    "qa_na_threshold",
    "own_task_max_label",
    "own_task_min_label",
}
# Checked with the other keys of the description that it is part of.
OF_A_DESCRIPTION = {"own_task_dev_fraction"}
NUMBERS = (int, float, int | None, float | None)


@pytest.mark.parametrize(
    "name",
    [field.name for field in dataclasses.fields(FinetuningConfig) if field.type in NUMBERS],
)
def test_every_number_has_a_lower_bound(tmp_path, name):
    """That of a new hyperparameter is in `finetune/config/checks.py`."""
    if name in MAY_BE_NEGATIVE | OF_A_DESCRIPTION:
        create(tmp_path, **{name: -1})
        return
    with pytest.raises(UserError, match=name):
        create(tmp_path, **{name: -1})


def test_a_negative_layerwise_decay_is_none_as_with_the_authors(tmp_path):
    assert create(tmp_path, layerwise_lr_decay=-1.0).layerwise_lr_decay == -1.0


def test_the_folders_of_trials_are_beside_a_model_dir_with_a_slash(tmp_path):
    assert create(tmp_path, model_dir="models/cola//").model_dir == "models/cola"


def test_early_stopping_keeps_the_best(tmp_path):
    assert create(tmp_path, early_stopping_patience=2).keep_best


@pytest.mark.parametrize("name", ["model_dir", "results_dir", "preprocessed_data_dir"])
def test_a_file_in_place_of_a_folder_is_refused(tmp_path, name):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(
        UserError, match=f"--{name}={path} is a file: pass the path of a folder"
    ):
        create(tmp_path, **{name: str(path)})


def test_a_tpu_has_one_length_unless_it_is_told_otherwise(tmp_path):
    assert not create(tmp_path, strategy="tpu").bucket_by_length
    assert create(tmp_path).bucket_by_length


def test_hyperparameters_are_json(tmp_path):
    config = create(tmp_path, task_names=("cola",))
    values = json.loads(config.to_json())
    assert values["task_names"] == ["cola"]
    assert list(values) == sorted(values)
    assert create(tmp_path, **values) == config


def test_a_task_of_ones_own_has_the_defaults_of_its_kind(tmp_path):
    given = {"task_names": ("mine",), "own_task_kind": "qa", "own_task_files": "train=a.json"}
    of_qa = create(tmp_path, **given)
    assert of_qa.max_seq_length == create(tmp_path, task_names=("squad",)).max_seq_length


def test_hyperparameters_without_effect_are_warned_of(tmp_path, capsys):
    warn_once.cache_clear()
    create(tmp_path, predict_file="new.tsv", do_predict=True, eval_steps=5, wandb="p")
    create(tmp_path, do_eval=False, eval_steps=5, keep_best=True)
    assert not capsys.readouterr().err
    create(tmp_path, predict_file="new.tsv", do_eval=False, eval_steps=5)
    warned = capsys.readouterr().err
    assert "--predict_file=new.tsv has no effect without --do_predict" in warned
    assert "--eval_steps=5 has no effect with --do_eval=false" in warned
    create(tmp_path, predict_output="new.tsv", beam_size=5, answerable_weight=1.0)
    create(tmp_path, joint_prediction=False, beam_size=5)
    warned = capsys.readouterr().err
    assert "--predict_output=new.tsv has no effect without --do_predict" in warned
    assert "--beam_size=5 has no effect with --joint_prediction=false" in warned
    assert "--answerable_weight" not in warned
    create(tmp_path, answerable_weight=0.0, learning_rate=0.0)
    warned = capsys.readouterr().err
    assert "--answerable_weight=0 does not train the answerability classifier" in warned
    assert "--learning_rate=0 changes no weights" in warned
    create(
        tmp_path,
        length_buckets=(16,),
        results_txt="r.txt",
        num_folds=2,
        authors_layerwise_lr_decay=True,
        layerwise_lr_decay=0.5,
    )
    create(tmp_path, write_test_outputs=True, n_writes_test=1, double_unordered=True)
    assert not capsys.readouterr().err
    create(tmp_path, length_buckets=(16,), bucket_by_length=False, n_writes_test=1)
    create(tmp_path, results_txt="r.txt", do_eval=False)
    create(tmp_path, num_folds=2, double_unordered=True, own_task_dev_fraction=0.2)
    create(tmp_path, authors_layerwise_lr_decay=True, layerwise_lr_decay=0.0)
    create(tmp_path, write_test_outputs=True, n_writes_test=0)
    workers = {"strategy": "multi_worker", "workers": ("a:1", "b:2"), "task_index": 0}
    assert create(tmp_path, **workers, shard_by="file") == create(tmp_path, **workers)
    warned = capsys.readouterr().err
    assert "--length_buckets has no effect with --bucket_by_length=false" in warned
    assert "--results_txt=r.txt has no effect with --do_eval=false" in warned
    assert "--double_unordered has no effect with --num_folds" in warned
    assert "--own_task_dev_fraction=0.2 has no effect with --num_folds" in warned
    assert "--authors_layerwise_lr_decay has no effect with --layerwise_lr_decay=0.0" in warned
    assert "--n_writes_test=1 has no effect without --write_test_outputs" in warned
    assert "--write_test_outputs has no effect with --n_writes_test=0" in warned
    assert "--shard_by=file has no effect in fine-tuning" in warned
    create(tmp_path, do_train=False, wandb="p", overwrite=True)
    warned = capsys.readouterr().err
    assert "--wandb=p has no effect without training" in warned
    assert "--overwrite has no effect with --do_train=false" in warned
