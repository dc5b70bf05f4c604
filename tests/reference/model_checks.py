"""Compares losses, logits, gradients and metrics with those of the authors' model.

The weights come from the authors' checkpoints; masks and samples are the recorded ones.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import tensorflow as tf

from electra_tf.config.encoder import DEBUG_SHAPE
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.generators import masked_lm, two_tower
from electra_tf.interop.variable_names import named_variables
from electra_tf.masking.masked_batch import candidates_mask, unmask
from electra_tf.model import metrics
from electra_tf.model.batch_types import (
    FakeData,
    PretrainingOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.util.errors import UserError
from tests.authors_weights import load_tf1_checkpoint
from tests.reference.compare_outputs import (
    TOLERANCE,
    Recorded,
    compare_cloze,
    compare_corruption,
    compare_discriminator,
    compare_masked_lm,
    compare_metrics,
    split_by_prefix,
)
from tests.reference.result import CheckResult, Comparison, guarded, skip

GRADIENT_TOLERANCE = 1e-3
PADDING_TOLERANCE = 1e-3
# Gradients that are 0 but for rounding (a key's bias does not move a softmax) are
# compared relative to this share of the global norm.
GRADIENT_FLOOR = 1e-4
# The longer prefix comes first.
PREFIXES = ("metric_after2_", "metric_", "batch2_", "")
INPUTS = ("input_ids", "input_mask", "segment_ids")
MASKED_LM = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
NO_RANDOMNESS = Randomness(seed=0, step=0, dropout=False)


class Variant:
    """One configuration of the authors' model, and ours with the same weights."""

    def __init__(self, reference_dir: pathlib.Path, name: str) -> None:
        self.name = name
        self.recorded_config = load_forward_config(reference_dir)[name]
        self.special = special_token_ids(reference_dir)
        self.arrays = split_by_prefix(
            np.load(reference_dir / self.recorded_config["file"]), PREFIXES
        )
        self.recorded = self.arrays[""]
        self.config = make_config(self.recorded_config["config"])
        self.model = build_model(self.config, self.special)
        checkpoint = reference_dir / self.recorded_config["checkpoint"]
        self.load_report = load_tf1_checkpoint(checkpoint, self.model)

    def inputs(self, recorded: Recorded) -> PretrainInputs:
        """Returns the recorded batch with the recorded masks."""
        arrays = {name: as_tensor(recorded[name]) for name in INPUTS + MASKED_LM}
        arrays["masked_lm_weights"] = tf.cast(arrays["masked_lm_weights"], tf.float32)
        arrays["input_ids"] = as_tensor(recorded["masked_input_ids"])
        return PretrainInputs(**arrays)

    def run(self, recorded: Recorded) -> PretrainingOutput:
        """Runs the model on a recorded batch, with the recorded samples."""
        beyond = (recorded["masked_lm_positions"] >= recorded["input_ids"].shape[1]).any()
        with authors_gathering() if beyond else contextlib.nullcontext():
            output = self.model(
                {},
                randomness=NO_RANDOMNESS,
                masked_inputs=self.inputs(recorded),
                sampled_token_ids=as_tensor(recorded["sampled_token_ids"]),
            )
        return with_recorded_ties(output, recorded)

    def corrupt(self, recorded: Recorded) -> FakeData:
        """Writes the recorded samples into a recorded batch."""
        fake = self.run(recorded).fake_data
        if fake is not None:
            return fake
        samples = as_tensor(recorded["sampled_token_ids"])
        inputs = self.inputs(recorded)
        return self.model._get_fake_data(inputs, None, NO_RANDOMNESS, samples)

    def metric_sums(self, output: PretrainingOutput, recorded: Recorded) -> metrics.MetricSums:
        """Returns the sums behind the metrics of one batch.

        Theirs counts rows of padding alone in two metrics; ours takes such rows for filling.
        """
        sums = dict(self.model.metric_sums(output))
        empty_rows = int((~recorded["input_mask"].any(axis=-1)).sum())
        if empty_rows and metrics.AUC_WITH_PADDING in sums:
            length = recorded["input_mask"].shape[-1]
            # Negatives of probability 0, as a row of one token that surely was not replaced.
            token = tf.one_hot(tf.zeros([empty_rows], tf.int32), length)
            row = metrics.auc_sums(-1e9 * token, tf.zeros_like(token), token)
            sums[metrics.AUC_WITH_PADDING] += row[metrics.AUC_WITH_PADDING]
            sums["disc_loss_per_example"] += [0.0, empty_rows]
        return sums

    @functools.cached_property
    def output_and_gradients(self) -> tuple[PretrainingOutput, dict[str, np.ndarray]]:
        """The output, and the gradient of the total loss by the authors' names."""
        mapping = named_variables(self.model)
        with tf.GradientTape() as tape:
            output = self.run(self.recorded)
            total = output.losses["total"]
        sources = [entry.variable.value for entry in mapping]
        gradients = {}
        for entry, gradient in zip(mapping, tape.gradient(total, sources), strict=True):
            if gradient is not None:
                gradients.update(entry.split(tf.convert_to_tensor(gradient).numpy()))
        return output, gradients

    @property
    def output(self) -> PretrainingOutput:
        """The output on the first recorded batch."""
        return self.output_and_gradients[0]


def with_recorded_ties(output: PretrainingOutput, recorded: Recorded) -> PretrainingOutput:
    """Takes the recorded predictions of logits that are 0 but for rounding.

    Sets may have such logits: the bias of the discriminator was chosen for a median of 0.
    """
    discriminator = output.discriminator
    if discriminator is None or not {"disc_logits", "disc_preds"} <= recorded.keys():
        return output
    logits = np.abs(recorded["disc_logits"])
    is_tie = logits <= TOLERANCE * np.max(logits)
    preds = tf.where(is_tie, as_tensor(recorded["disc_preds"]), discriminator.preds)
    return output._replace(discriminator=discriminator._replace(preds=preds))


def as_tensor(array: np.ndarray) -> tf.Tensor:
    """Returns ids or masks of any integer type as the models take them."""
    return tf.constant(np.asarray(array).astype(np.int32))


def gather_across_rows(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Gathers as theirs does: a position past the end of a row is in the next row.

    They draw such a position in a row without candidates; ours masks nothing there.
    """
    shape = tf.shape(sequence)
    flat = tf.reshape(sequence, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.gather(flat, positions + shape[1] * tf.range(shape[0])[:, None])


@contextlib.contextmanager
def authors_gathering() -> Iterator[None]:
    """Lets the generators read positions as `gather_across_rows` does."""
    with contextlib.ExitStack() as stack:
        for module in (masked_lm, two_tower):
            stack.enter_context(
                mock.patch.object(module, "gather_positions", gather_across_rows)
            )
        yield


def load_forward_config(reference_dir: pathlib.Path) -> dict[str, dict]:
    """Returns the recorded variants by name."""
    return json.loads((reference_dir / "forward_config.json").read_text())


def special_token_ids(reference_dir: pathlib.Path) -> SpecialTokenIds:
    """Returns the special ids of the vocabulary that the models were run with."""
    ids = json.loads((reference_dir / "helpers_config.json").read_text())["tiny_vocab_ids"]
    return SpecialTokenIds(cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def make_config(recorded: dict) -> PretrainingConfig:
    """Returns our configuration for what was passed to the authors' PretrainingConfig.

    Their Electric scores the noise with the generator's plain probabilities, whatever it was
    sampled by; ours scores it at `temperature`, and refuses `disallow_correct`. The recorded
    samples are used, so theirs is compared without both.
    """
    given = {"data_dir": "-", "model_name": "reference", **recorded}
    # Null is what the authors' default means, such as an embedding size of the hidden size.
    fields = {field.name: field for field in dataclasses.fields(PretrainingConfig)}
    for name, value in recorded.items():
        if value is None and name in fields:
            given[name] = fields[name].metadata["null"]
    # Whether it trains does not shape the model, and their programs compute in float32.
    given |= {"do_train": True, "do_eval": False, "precision": "float32"}
    overrides = recorded.get("model_hparam_overrides", {})
    if given.get("debug"):  # where overrides win, and theirs do not
        kept = {name: value for name, value in overrides.items() if name not in DEBUG_SHAPE}
        given["model_hparam_overrides"] = kept
    if "vocab_size" in overrides:  # where theirs has two sizes, this one counts
        given["vocab_size"] = overrides["vocab_size"]
    if given.get("electric_objective"):
        given |= {"temperature": 1.0, "disallow_correct": False}
    return PretrainingConfig.create(**given)


def check_models(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results of every variant in `forward_config.json`."""
    for name in load_forward_config(reference_dir):
        yield from guarded(
            f"forward {name}", functools.partial(check_variant, reference_dir, name)
        )


def check_variant(reference_dir: pathlib.Path, name: str) -> Iterator[CheckResult]:
    """Yields one result for each thing that a variant can be compared in."""
    recorded = load_forward_config(reference_dir)[name]
    title = f"forward {name}"
    if recorded.get("crashed"):
        yield _check_crash(title, recorded)
        return
    if recorded.get("n_parameters") == 0:
        yield _check_nothing_to_train(title, recorded)
        return
    variant = Variant(reference_dir, name)
    for check in CHECKS:
        yield from _run_check(check, title, variant)
    slices = recorded.get("vars_with_indexed_slices_gradient", ["an unknown table"])
    if slices and "grad_global_norm_as_clipped" in variant.recorded:
        norm = variant.recorded["grad_global_norm_as_clipped"]
        reason = f"{norm} counts the un-summed rows of {', '.join(slices)}; ours are summed"
        yield skip(f"{title} global norm", reason)
    yield _check_all_compared(title, variant)


def _run_check(
    check: Callable[[Variant, Comparison], None], title: str, variant: Variant
) -> Iterator[CheckResult]:
    name = f"{title} {check.__name__.removeprefix('check_')}"
    comparison = Comparison(name)
    try:
        check(variant, comparison)
    except Exception as error:  # what a set lacks fails this check alone
        yield CheckResult(name, False, f"{type(error).__name__}: {error}")
    else:
        if comparison.count:
            yield comparison.result()


def _check_crash(title: str, recorded: dict) -> CheckResult:
    try:
        make_config(recorded["config"])
    except UserError as error:
        return CheckResult(title, True, f"theirs crashes, ours refuses: {error}")
    return skip(title, f"theirs crashes, ours runs: {recorded['message']}")


def _check_nothing_to_train(title: str, recorded: dict) -> CheckResult:
    try:
        make_config(recorded["config"])
    except UserError as error:
        return skip(title, f"theirs has nothing to train, ours refuses: {error}")
    return CheckResult(title, False, "theirs has nothing to train, ours runs")


def _check_all_compared(title: str, variant: Variant) -> CheckResult:
    unread = [
        prefix + name for prefix, part in variant.arrays.items() for name in part.unread()
    ]
    count = sum(map(len, variant.arrays.values()))
    detail = f"not compared: {', '.join(unread)}" if unread else f"{count} arrays"
    return CheckResult(f"{title} every array", not unread, detail)


def check_sizes(variant: Variant, comparison: Comparison) -> None:
    """Compares the number of parameters, and the variables and their names."""
    recorded = variant.recorded_config
    if "n_parameters" in recorded:
        count = sum(int(np.prod(v.shape)) for v in variant.model.trainable_variables)
        comparison.equal("n_parameters", count, recorded["n_parameters"])
    names = sorted(variant.load_report.matched)
    comparison.equal("variable_names", names, sorted(variant.recorded["variable_names"]))
    # Where theirs leaves no room for a masked token, ours leaves room for one.
    slots = max(1, variant.recorded["masked_lm_positions"].shape[1])
    comparison.equal("max_predictions_per_seq", variant.config.max_predictions_per_seq, slots)
    for name in ("gen_weight", "disc_weight", "mask_prob"):
        if name in recorded:
            comparison.equal(name, getattr(variant.config, name), recorded[name])


def check_settings(variant: Variant, comparison: Comparison) -> None:
    """Compares every setting of the encoders, those without a trace in the outputs included."""
    recorded = variant.recorded_config
    shapes = {"bert_config": discriminator_config(variant.config)}
    # Theirs derives a small generator's settings also where it builds none.
    if any(transformer["scope"] for transformer in recorded.get("transformers", ())):
        shapes["generator_config"] = generator_config(variant.config)
    for name, ours in shapes.items():
        if name not in recorded:
            continue
        known = {field.name for field in dataclasses.fields(ours)}
        given = {key: value for key, value in recorded[name].items() if key in known}
        theirs = dataclasses.replace(ours, **given)
        comparison.true(name, ours == theirs, f"{ours}, expected {theirs}")


def check_masking(variant: Variant, comparison: Comparison) -> None:
    """Compares the candidates, and puts the recorded tokens back."""
    recorded, inputs = variant.recorded, variant.inputs(variant.recorded)
    original = inputs._replace(input_ids=as_tensor(recorded["input_ids"]))
    candidates = candidates_mask(original, variant.special)
    comparison.equal("candidates_mask", candidates, recorded["candidates_mask"])
    comparison.equal("unmasked ids", unmask(inputs).input_ids, recorded["input_ids"])


def check_encoders(variant: Variant, comparison: Comparison) -> None:
    """Compares the embeddings and outputs of generator and discriminator."""
    recorded, masked = variant.recorded, variant.inputs(variant.recorded)
    corrupted = as_tensor(recorded["corrupted_input_ids"])
    towers, original = variant.model.two_tower, as_tensor(recorded["input_ids"])
    for role, encoder, input_ids in (
        ("generator", variant.model.generator, masked.input_ids),
        ("generator_ltr", towers and towers.ltr, original),
        ("generator_rtl", towers and towers.rtl, original),
        ("discriminator", variant.model.electra, corrupted),
    ):
        if f"{role}_sequence_output" not in recorded:
            continue
        output = encoder(input_ids, masked.input_mask, masked.segment_ids)
        for name, value in output._asdict().items():
            if f"{role}_{name}" in recorded:
                expected = recorded[f"{role}_{name}"]
                # Padding in the right-to-left tower attends to scores rounded to 1e-3.
                tolerance = PADDING_TOLERANCE if role == "generator_rtl" else TOLERANCE
                comparison.close(f"{role}_{name}", value, expected, tolerance)
                real = recorded["input_mask"].astype(bool)
                comparison.close(
                    f"{role}_{name}, real tokens", value[real], expected[real], TOLERANCE
                )


def check_cloze(variant: Variant, comparison: Comparison) -> None:
    """Compares the two-tower generator's predictions of all tokens."""
    compare_cloze(variant.output.masked_lm.cloze, variant.recorded, comparison)


def check_masked_lm(variant: Variant, comparison: Comparison) -> None:
    """Compares the generator's predictions and loss."""
    compare_masked_lm(variant.output.masked_lm, variant.recorded, comparison)


def check_corruption(variant: Variant, comparison: Comparison) -> None:
    """Compares the corrupted ids and the labels; also of variants that do not use them."""
    compare_corruption(variant.corrupt(variant.recorded), variant.recorded, comparison)


def check_discriminator(variant: Variant, comparison: Comparison) -> None:
    """Compares the discriminator's predictions and loss."""
    if variant.output.discriminator is not None:
        compare_discriminator(variant.output.discriminator, variant.recorded, comparison)


def check_total_loss(variant: Variant, comparison: Comparison) -> None:
    """Compares the loss that is minimized."""
    total, expected = variant.output.losses["total"], variant.recorded["total_loss"]
    comparison.close("total_loss", total, expected, TOLERANCE)


def check_gradients(variant: Variant, comparison: Comparison) -> None:
    """Compares norm and sum of every variable's gradient, and the global norm."""
    recorded, gradients = variant.recorded, variant.output_and_gradients[1]
    names = [str(name) for name in recorded["grad_names"]]
    comparison.equal("grad_names", sorted(gradients), sorted(names))
    floor = GRADIENT_FLOOR * float(np.linalg.norm(recorded["grad_l2"]))
    norms = []
    for name, l2, total in zip(names, recorded["grad_l2"], recorded["grad_sum"], strict=True):
        gradient = np.asarray(gradients.get(name, np.nan), np.float64)
        norms.append(np.linalg.norm(gradient))
        # A sum cancels, so its rounding goes with the norm of what is summed.
        for label, actual, expected in (
            (f"norm of {name}", norms[-1], l2),
            (f"sum of {name}", gradient.sum(), total),
        ):
            scale = max(abs(expected), l2, floor)
            comparison.difference(label, abs(actual - expected) / scale, GRADIENT_TOLERANCE)
    # Without the names of such variables, nobody knows what the norm counts.
    if variant.recorded_config.get("vars_with_indexed_slices_gradient", True) == []:
        expected = recorded["grad_global_norm_as_clipped"]
        comparison.close("global norm", np.linalg.norm(norms), expected, GRADIENT_TOLERANCE)


def check_metrics(variant: Variant, comparison: Comparison) -> None:
    """Compares the metrics after one batch."""
    sums = variant.metric_sums(variant.output, variant.recorded)
    compare_metrics(sums, variant.arrays["metric_"], comparison)


def check_second_batch(variant: Variant, comparison: Comparison) -> None:
    """Compares a second batch, and the metrics over both."""
    recorded = variant.arrays["batch2_"]
    if not recorded:
        return
    output = variant.run(recorded)
    compare_masked_lm(output.masked_lm, recorded, comparison)
    compare_cloze(output.masked_lm.cloze, recorded, comparison)
    compare_corruption(variant.corrupt(recorded), recorded, comparison)
    if output.discriminator is not None:
        compare_discriminator(output.discriminator, recorded, comparison)
    total = output.losses["total"]
    comparison.close("total_loss", total, recorded["total_loss"], TOLERANCE)
    first = variant.metric_sums(variant.output, variant.recorded)
    second = variant.metric_sums(output, recorded)
    sums = {name: first[name] + second[name] for name in first}
    compare_metrics(sums, variant.arrays["metric_after2_"], comparison)


CHECKS: tuple[Callable[[Variant, Comparison], None], ...] = (
    check_sizes,
    check_settings,
    check_masking,
    check_encoders,
    check_masked_lm,
    check_cloze,
    check_corruption,
    check_discriminator,
    check_total_loss,
    check_gradients,
    check_metrics,
    check_second_batch,
)
