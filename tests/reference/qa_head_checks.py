"""Compares the outputs, losses and gradients of question answering with the authors'."""

import functools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.interop.model_checkpoint import TASK_SCOPE
from electra_tf.interop.variable_names import encoder_variables
from electra_tf.model.encoder import Encoder
from finetune.config.task_kinds import QA
from finetune.data.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from finetune.model import HeadOutput
from finetune.tasks.qa.task import QATask
from tests.authors_weights import load_tf1_variables
from tests.reference.classification_checks import recorded_encoder_config
from tests.reference.compare_outputs import TOLERANCE
from tests.reference.model_checks import GRADIENT_FLOOR, GRADIENT_TOLERANCE
from tests.reference.qa_settings import make_config
from tests.reference.result import CheckResult, Comparison, guarded

BEAM_OUTPUTS = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
)
# Log probabilities nearer to each other than this may come in any order: those of masked
# positions are near -1000, where float32 has steps of 6e-5.
NEARLY_EQUAL = 1e-3


def check_qa_heads(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results of every recorded model that answers questions."""
    for path in sorted((reference_dir / "heads").glob("*/config.json")):
        recorded = json.loads(path.read_text())
        for name in recorded["config"]["task_names"]:
            if name in QA.built_in:
                yield from guarded(
                    f"head {path.parent.name} {name}",
                    functools.partial(_check_head, path.parent, recorded, name),
                )


class _Model:
    """The authors' weights in our encoder and head."""

    def __init__(self, folder: pathlib.Path, recorded: dict, name: str) -> None:
        self.config = make_config(recorded["config"])
        shape = recorded_encoder_config(recorded["config"])
        self.name = name
        self.encoder = Encoder(shape, name="electra")
        task = QATask(self.config, name, None, v2=True, files={})
        with keras.name_scope(TASK_SCOPE.removesuffix("/")):
            self.head = task.build_head(shape, self.encoder.dtype_policy)
        self.mapping = encoder_variables(self.encoder) + self.head.named_variables()
        self.report = load_tf1_variables(folder / "model.ckpt", self.mapping)

    def run(self, arrays: Mapping[str, np.ndarray], *, is_training: bool) -> HeadOutput:
        """Runs the model on the recorded batch."""
        features = {
            name.removeprefix("in/"): tf.constant(arrays[name])
            for name in arrays
            if name.startswith("in/")
        }
        inputs = [features[key] for key in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)]
        hidden = self.encoder(*inputs).sequence_output
        return self.head(hidden, features, is_training=is_training)


def _check_head(folder: pathlib.Path, recorded: dict, name: str) -> Iterator[CheckResult]:
    title = f"head {folder.name} {name}"
    model = _Model(folder, recorded, name)
    arrays = dict(np.load(folder / "arrays.npz"))
    yield _check_variables(title, model, recorded)
    yield _check_evaluation(title, model, arrays)
    if f"train/{name}/loss" in arrays:
        yield from _check_training(title, model, arrays, recorded)


def _check_variables(title: str, model: _Model, recorded: dict) -> CheckResult:
    comparison = Comparison(f"{title} variables")
    scope = f"{TASK_SCOPE}{model.name}/"
    theirs = {
        variable.removesuffix(":0"): tuple(shape)
        for variable, shape in recorded["variables"]
        if variable.startswith(("electra/", scope))
    }
    ours = {n: entry.part_shape for entry in model.mapping for n in entry.names}
    comparison.true("names and shapes", ours == theirs, f"{set(ours) ^ set(theirs)}")
    comparison.equal("all read", len(model.report.matched), len(theirs))
    return comparison.result()


def _check_evaluation(
    title: str, model: _Model, arrays: Mapping[str, np.ndarray]
) -> CheckResult:
    comparison = Comparison(f"{title} evaluation")
    prefix = f"out/{model.name}/"
    output = model.run(arrays, is_training=False)
    ours = {name: value.numpy() for name, value in output.outputs.items()}
    ours["loss"] = output.losses.numpy()
    for name in ("start_logits", "answerable_logit"):
        comparison.close(name, ours[name], arrays[prefix + name], TOLERANCE)
    if model.config.joint_prediction:
        _compare_beams(ours, arrays, prefix, comparison)
        loss = _loss_without_ends(model, ours, arrays)
        expected_zeros = arrays[prefix + "end_logits"]
        comparison.equal("end_logits", np.zeros_like(expected_zeros), expected_zeros)
    else:
        comparison.close(
            "end_logits", ours["end_logits"], arrays[prefix + "end_logits"], TOLERANCE
        )
        for name in BEAM_OUTPUTS:
            theirs = arrays[prefix + name]
            comparison.equal(name, np.zeros_like(theirs), theirs)
        loss = ours["loss"]
    comparison.close("loss", loss, arrays[prefix + "loss"], TOLERANCE)
    if f"train/{model.name}/loss" in arrays:
        # Without dropout, our loss of evaluation is that of training.
        expected = arrays[f"train/{model.name}/loss"]
        comparison.close("loss with ends", ours["loss"], expected, TOLERANCE)
    return comparison.result()


def _loss_without_ends(
    model: _Model, ours: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Returns the loss that the authors report with joint prediction.

    Their end logits are 0 in evaluation, so that every end costs the log of the length.
    """
    logits = ours["start_logits"].astype(np.float64)
    log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    starts = arrays[f"in/{model.name}_start_positions"]
    start_loss = -np.take_along_axis(log_probs, starts[:, None], axis=-1)[:, 0]
    loss = 0.5 * (start_loss + np.log(logits.shape[-1]))
    if model.config.answerable_classifier:
        logit = ours["answerable_logit"].astype(np.float64)
        sign = 1 - 2.0 * arrays[f"in/{model.name}_is_impossible"]
        loss += model.config.answerable_weight * np.logaddexp(0, sign * logit)
    return loss


def _compare_beams(
    ours: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray],
    prefix: str,
    comparison: Comparison,
) -> None:
    start_log_probs, start_index, end_log_probs, end_index = (
        arrays[prefix + name] for name in BEAM_OUTPUTS
    )
    comparison.close(
        "start_top_log_probs", ours["start_top_log_probs"], start_log_probs, TOLERANCE
    )
    for row in range(len(start_index)):
        order = _same_order(
            f"starts of row {row}",
            (ours["start_top_index"][row], ours["start_top_log_probs"][row]),
            (start_index[row], start_log_probs[row]),
            comparison,
        )
        for theirs, mine in order.items():
            _same_order(
                f"ends of row {row}, start {theirs}",
                (ours["end_top_index"][row, mine], ours["end_top_log_probs"][row, mine]),
                (end_index[row, theirs], end_log_probs[row, theirs]),
                comparison,
            )
            comparison.close(
                f"end_top_log_probs of row {row}, start {theirs}",
                ours["end_top_log_probs"][row, mine],
                end_log_probs[row, theirs],
                TOLERANCE,
            )


def _same_order(
    label: str,
    ours: tuple[np.ndarray, np.ndarray],
    theirs: tuple[np.ndarray, np.ndarray],
    comparison: Comparison,
) -> dict[int, int]:
    """Compares positions by rank, and returns our rank for each of theirs that we have.

    Positions of nearly equal log probability may swap places, also with those that just
    missed the beam.
    """
    rank = {int(position): i for i, position in enumerate(ours[0])}
    order = {}
    for i, (position, log_prob) in enumerate(zip(*theirs, strict=True)):
        mine = rank.get(int(position))
        if mine is None:
            near = abs(log_prob - theirs[1][-1]) <= NEARLY_EQUAL
        else:
            near = abs(log_prob - ours[1][i]) <= NEARLY_EQUAL * max(1, abs(log_prob) / 1000)
            near &= mine == i or abs(theirs[1][mine] - log_prob) <= NEARLY_EQUAL
            order[i] = mine
        comparison.true(label, bool(near), f"position {position} stands elsewhere")
    return order


def _check_training(
    title: str, model: _Model, arrays: Mapping[str, np.ndarray], recorded: dict
) -> Iterator[CheckResult]:
    comparison = Comparison(f"{title} training")
    with tf.GradientTape() as tape:
        output = model.run(arrays, is_training=True)
        total = tf.reduce_sum(output.losses)
    prefix = f"train/{model.name}/"
    for name in (key.removeprefix(prefix) for key in arrays if key.startswith(prefix)):
        value = output.losses if name == "loss" else output.outputs[name]
        comparison.close(name, value, arrays[prefix + name], TOLERANCE)
    yield comparison.result()
    norms = recorded.get(f"{model.name}_train_grad_norms")
    if norms:
        sources = [entry.variable.value for entry in model.mapping]
        gradients = tape.gradient(total, sources)
        yield _check_gradients(title, model, gradients, norms)


def _check_gradients(
    title: str, model: _Model, gradients: list[Any], norms: Mapping[str, float]
) -> CheckResult:
    comparison = Comparison(f"{title} gradients")
    ours = {}
    for entry, gradient in zip(model.mapping, gradients, strict=True):
        if gradient is not None:
            parts = entry.split(tf.convert_to_tensor(gradient).numpy())
            ours |= {name: np.linalg.norm(part) for name, part in parts.items()}
    comparison.true("variables", set(ours) == set(norms), f"{set(ours) ^ set(norms)}")
    floor = GRADIENT_FLOOR * float(np.linalg.norm(list(norms.values())))
    for name, expected in norms.items():
        difference = abs(ours.get(name, np.inf) - expected) / max(expected, floor)
        comparison.difference(name, difference, GRADIENT_TOLERANCE)
    return comparison.result()
