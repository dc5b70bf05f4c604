"""Runs the numeric half of the reference check on the small set of tests/data."""

import json
import pathlib
import shutil
from collections.abc import Callable, Iterable

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import discriminator_config
from electra_tf.model.batch_types import DiscriminatorOutput, PretrainingOutput
from tests.reference import model_checks
from tests.reference.compare_outputs import Recorded
from tests.reference.helper_checks import check_helpers
from tests.reference.optimizer_checks import check_optimizer
from tests.reference.result import CheckResult

REFERENCE_DIR = pathlib.Path(__file__).parents[1] / "data/reference/pretraining"
COVERED = (
    "default",
    "disallow_correct",
    "temperature",
    "uniform_generator",
    "untied_generator_embeddings",
    "tied_all",
    "mlm_only",
    "electric",
    "electra_two_tower",
    "electric_untied_embeddings",
)


def assert_all_pass(results: Iterable[CheckResult], subtests: pytest.Subtests) -> set[str]:
    """Makes a test of each result, and returns the names of those not skipped."""
    names = set()
    for result in results:
        with subtests.test(result.name):
            assert result.passed, result.detail
        if not result.skipped:
            names.add(result.name)
    return names


@pytest.mark.parametrize("variant", COVERED)
def test_forward(variant, subtests):
    results = model_checks.check_variant(REFERENCE_DIR, variant)
    names = assert_all_pass(results, subtests)
    assert {f"forward {variant} {part}" for part in ("masked_lm", "gradients")} < names
    assert (f"forward {variant} discriminator" in names) == (variant != "mlm_only")
    assert (f"forward {variant} second_batch" in names) == (variant == "default")


def test_every_variant_is_checked_refused_or_reported():
    variants = model_checks.load_forward_config(REFERENCE_DIR)
    others = [name for name in variants if name not in COVERED]
    results = {name: list(model_checks.check_variant(REFERENCE_DIR, name)) for name in others}
    assert all(len(found) == 1 and found[0].passed for found in results.values())
    refused = {name for name, (result,) in results.items() if not result.skipped}
    assert refused == {"uniform_generator_tied", "tied_two_tower"}


def test_helpers(subtests):
    assert len(assert_all_pass(check_helpers(REFERENCE_DIR), subtests)) == 16


def test_optimizer(subtests):
    assert len(assert_all_pass(check_optimizer(REFERENCE_DIR), subtests)) == 16


def test_settings_mean_what_they_mean_to_the_authors():
    given = {
        "model_size": "small",
        "model_hparam_overrides": {"hidden_size": 64, "hidden_act": None},
        "embedding_size": None,
        "keep_checkpoint_max": None,
    }
    config = model_checks.make_config(given)
    assert config.embedding_size == 64  # not 128, the default of the small model
    assert config.keep_checkpoint_max == 0
    # Their Electric samples the noise by these two, but scores it without them.
    electric = {"electric_objective": True, "temperature": 2.0, "disallow_correct": True}
    config = model_checks.make_config({**given, **electric})
    assert (config.temperature, config.disallow_correct) == (1.0, False)
    config = model_checks.make_config({**given, "temperature": 2.0, "disallow_correct": True})
    assert (config.temperature, config.disallow_correct) == (2.0, True)
    # Their overrides win, a TPU does not change their precision, and both flags may be set.
    overrides = {"hidden_size": 64, "vocab_size": 90}
    given |= {"vocab_size": 70, "model_hparam_overrides": overrides, "use_tpu": True}
    config = model_checks.make_config({**given, "do_train": True, "do_eval": True})
    assert (config.vocab_size, config.precision) == (90, "float32")
    # Their debug mode has a model of its own, whatever the overrides of its sizes are.
    config = model_checks.make_config({**given, "debug": True, "model_size": "base"})
    shape = discriminator_config(config)
    assert (shape.hidden_size, shape.num_attention_heads, shape.embedding_size) == (144, 4, 144)
    assert shape.vocab_size == 90


def test_positions_past_a_row_are_in_the_next_one():
    sequence = np.arange(12).reshape(2, 3, 2)
    positions = np.array([[3, 0, 2], [1, 1, 0]], np.int32)
    expected = sequence.reshape(6, 2)[positions + np.array([[0], [3]])]
    gathered = model_checks.gather_across_rows(tf.constant(sequence), tf.constant(positions))
    np.testing.assert_array_equal(gathered, expected)


@pytest.fixture
def copied_set(tmp_path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(REFERENCE_DIR, tmp_path / "set"))


def change(path: pathlib.Path, key: str, factor: float = 1.0, shift: float = 0.0) -> None:
    """Changes the largest value of one array."""
    arrays = dict(np.load(path))
    array = np.atleast_1d(arrays[key])
    index = np.unravel_index(np.argmax(np.abs(array)), array.shape)
    array[index] = array[index] * factor + shift
    arrays[key] = array.reshape(arrays[key].shape)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("key", "factor", "shift", "failed"),
    [
        ("generator_sequence_output", 1.0002, 0, "encoders"),
        ("mlm_loss", 0.9998, 0, "masked_lm"),
        ("mlm_preds", 1, 1, "masked_lm"),
        ("disc_logits", 1.0002, 0, "discriminator"),
        ("total_loss", 1.0002, 0, "total_loss"),
        ("grad_l2", 1.002, 0, "gradients"),
        ("metric_disc_auc", 1.0002, 0, "metrics"),
        ("candidates_mask", 0, 0, "masking"),
    ],
)
def test_a_difference_of_the_model_is_found(copied_set, key, factor, shift, failed):
    change(copied_set / "forward_tied_all.npz", key, factor, shift)
    results = model_checks.check_variant(copied_set, "tied_all")
    names = {result.name for result in results if not result.passed}
    assert names == {f"forward tied_all {failed}"}


def test_the_sign_of_a_logit_that_is_zero_but_for_rounding_is_not_compared():
    logits = np.array([[5.0, 1e-6, -1e-6, 1e-2]], np.float32)
    ours = DiscriminatorOutput(*map(tf.constant, (logits, logits, [[1, 1, 0, 1]], [0], 0, [1])))
    recorded = Recorded({"disc_logits": -logits, "disc_preds": np.array([[0, 0, 1, 0]])})
    output = PretrainingOutput({}, None, None, None, ours)
    output = model_checks.with_recorded_ties(output, recorded)
    assert output.discriminator.preds.numpy().tolist() == [[1, 0, 1, 1]]


def test_an_array_that_nothing_compares_is_found(copied_set):
    path = copied_set / "forward_mlm_only.npz"
    np.savez(path, **np.load(path), another=np.ones(3))
    results = model_checks.check_variant(copied_set, "mlm_only")
    assert [r.detail for r in results if not r.passed] == ["not compared: another"]


@pytest.mark.parametrize(
    ("file", "key", "factor", "checks", "failed"),
    [
        ("helpers", "scatter_int_sequence", 2, check_helpers, "helpers scatter_update"),
        ("helpers", "num_to_predict", 2, check_helpers, "helpers num_to_predict"),
        (
            "helpers",
            "mask_m15/slot_frequency",
            1.5,
            check_helpers,
            "helpers mask_m15 with replacement",
        ),
        (
            "optimizer",
            "a_pretrain/value/electra/embeddings/word_embeddings",
            1.00003,
            check_optimizer,
            "optimizer a_pretrain values",
        ),
        (
            "optimizer",
            "c_power/global_norm",
            1.00003,
            check_optimizer,
            "optimizer c_power norms and rates",
        ),
    ],
)
def test_a_difference_elsewhere_is_found(copied_set, file, key, factor, checks, failed):
    change(copied_set / f"{file}.npz", key, factor)
    assert {result.name for result in checks(copied_set) if not result.passed} == {failed}


def test_cases_of_other_names_are_compared_as_well(copied_set, subtests):
    config = json.loads((copied_set / "optimizer_config.json").read_text())
    arrays = dict(np.load(copied_set / "optimizer.npz"))
    renamed = {f"z_{name}" if name == "a_pretrain" else name: v for name, v in config.items()}
    (copied_set / "optimizer_config.json").write_text(json.dumps(renamed))
    np.savez(
        copied_set / "optimizer.npz",
        **{f"z_{key}" if key.startswith("a_pretrain") else key: v for key, v in arrays.items()},
    )
    names = assert_all_pass(check_optimizer(copied_set), subtests)
    assert "optimizer z_a_pretrain_unforced_order" in names
    assert len(names) == 16
    fewer = {name: case for name, case in config.items() if name == "c_power"}
    (copied_set / "optimizer_config.json").write_text(json.dumps(fewer))
    kept = {key: value for key, value in arrays.items() if key.startswith("c_power/")}
    np.savez(copied_set / "optimizer.npz", **kept)
    assert len(assert_all_pass(check_optimizer(copied_set), subtests)) == 4


def test_a_missing_array_fails_one_check(copied_set):
    path = copied_set / "helpers.npz"
    arrays = dict(np.load(path))
    del arrays["seq_int"]
    np.savez(path, **arrays)
    results = {result.name: result for result in check_helpers(copied_set)}
    failed = {name for name, result in results.items() if not result.passed}
    assert failed == {"helpers gather_positions", "helpers scatter_update"}
    assert "seq_int" in results["helpers scatter_update"].detail
    assert len(results) == 17
    assert results["helpers not compared"].skipped  # what the two would have read


def edit_json(path: pathlib.Path, change_: Callable[[dict], None]) -> None:
    content = json.loads(path.read_text())
    change_(content)
    path.write_text(json.dumps(content))


def test_arrays_of_other_widths_agree(copied_set, subtests):
    path = copied_set / "forward_uniform_generator.npz"
    arrays = dict(np.load(path))
    for key, array in arrays.items():
        if array.dtype.kind in "if":
            arrays[key] = array.astype(np.int64 if array.dtype.kind == "i" else np.float64)
    np.savez(path, **arrays)
    assert_all_pass(model_checks.check_variant(copied_set, "uniform_generator"), subtests)


def test_a_second_batch_of_two_towers_is_compared(copied_set):
    path = copied_set / "forward_electric.npz"
    arrays = dict(np.load(path))
    names = ("input_", "segment_", "masked_", "sampled_", "corrupted_")
    names += ("mlm_", "disc_", "cloze_", "total_")
    again = {f"batch2_{name}": a for name, a in arrays.items() if name.startswith(names)}
    assert "batch2_cloze_loss" in again
    np.savez(path, **arrays, **again)
    results = model_checks.check_variant(copied_set, "electric")
    assert [result.detail for result in results if not result.passed] == []
    change(path, "batch2_cloze_loss", 1.001)
    results = model_checks.check_variant(copied_set, "electric")
    failed = [result.name for result in results if not result.passed]
    assert failed == ["forward electric second_batch"]


def test_settings_without_a_trace_in_the_outputs_are_compared(copied_set):
    path = copied_set / "forward_config.json"
    edit_json(path, lambda c: c["tied_all"]["bert_config"].update(hidden_dropout_prob=0.2))
    results = list(model_checks.check_variant(copied_set, "tied_all"))
    assert [r.name for r in results if not r.passed] == ["forward tied_all settings"]


def test_what_was_recorded_of_a_variant_is_compared_alone(copied_set, subtests):
    optional = ("n_parameters", "bert_config", "generator_config", "transformers", "mask_prob")
    optional += ("vars_with_indexed_slices_gradient", "max_predictions_per_seq")
    path = copied_set / "forward_config.json"
    edit_json(path, lambda c: [c["mlm_only"].pop(name) for name in optional])
    names = assert_all_pass(model_checks.check_variant(copied_set, "mlm_only"), subtests)
    assert "forward mlm_only sizes" in names
    assert "forward mlm_only settings" not in names


def test_a_model_without_variables_is_reported(copied_set):
    def change_(config: dict) -> None:
        variant = config["mlm_only"]
        variant["n_parameters"] = 0
        variant["config"]["uniform_generator"] = True

    edit_json(copied_set / "forward_config.json", change_)
    (result,) = model_checks.check_variant(copied_set, "mlm_only")
    assert result.skipped
    assert "nothing to train" in result.detail


def test_defaults_of_the_optimizer_and_no_warmup(copied_set, subtests):
    rows = [{"learning_rate": 1e-3, "num_train_steps": 4}]
    rates = [[np.nan, 7.5e-4, 5e-4, 2.5e-4, 0, 0]]  # theirs computes 0/0 at first
    path = copied_set / "optimizer.npz"
    arrays = {key: a for key, a in np.load(path).items() if key.startswith("c_power")}
    np.savez(path, **arrays, schedules=rates, another=np.ones(1))

    def change_(config: dict) -> None:
        case = config["c_power"]
        config.clear()
        case["create_optimizer_args"]["layerwise_lr_decay_power"] = -1
        config.update(c_power=case, schedules=rows)

    edit_json(copied_set / "optimizer_config.json", change_)
    names = assert_all_pass(check_optimizer(copied_set), subtests)
    assert "schedule learning_rate 0.001, num_train_steps 4" in names
    (unread,) = [r for r in check_optimizer(copied_set) if r.skipped]
    assert unread.detail == "another"
    edit_json(
        copied_set / "optimizer_config.json",
        lambda c: c["c_power"]["create_optimizer_args"].pop("weight_decay_rate"),
    )
    failed = [r.name for r in check_optimizer(copied_set) if not r.passed]
    assert failed == ["optimizer c_power values"]  # recorded with weight decay


def test_summaries_of_masking_are_compared(copied_set):
    change(copied_set / "helpers.npz", "mask_m50/mean_duplicate_slots", 1.001)
    failed = [r.name for r in check_helpers(copied_set) if not r.passed]
    assert failed == ["helpers mask_m50 summaries"]
