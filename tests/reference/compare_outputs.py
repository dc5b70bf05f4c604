"""Compares the outputs of one batch, and metrics, array by array."""

from collections.abc import Iterator, Mapping

import numpy as np

from electra_tf.model import metrics
from electra_tf.model.batch_types import (
    ClozeOutput,
    DiscriminatorOutput,
    FakeData,
    MaskedLMOutput,
)
from tests.reference.result import Comparison

# Relative to the largest absolute value of the array.
TOLERANCE = 1e-4
# Begins the name of one row's logits; the row's number ends it.
LOGITS_OF_A_ROW = "cloze_logits_example"
# Names of the authors' metrics that mean something else than ours of that name.
METRIC_NAMES = {"disc_loss": "disc_loss_per_example", "disc_auc": "disc_auc_with_padding"}


class Recorded(Mapping):
    """Recorded arrays by name; it remembers which were looked at."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays[name]
        self._read.add(name)
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def unread(self) -> list[str]:
        """Returns the names of the arrays that nothing was compared with."""
        return [name for name in self._arrays if name not in self._read]


def split_by_prefix(
    arrays: Mapping[str, np.ndarray], prefixes: tuple[str, ...]
) -> dict[str, Recorded]:
    """Returns the arrays by the first of `prefixes` that fits; their names lose it."""
    parts: dict[str, dict[str, np.ndarray]] = {prefix: {} for prefix in prefixes}
    for name, array in arrays.items():
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        parts[prefix][name.removeprefix(prefix)] = array
    return {prefix: Recorded(part) for prefix, part in parts.items()}


def compare_masked_lm(
    output: MaskedLMOutput, recorded: Recorded, comparison: Comparison
) -> None:
    """Compares the generator's logits, predictions and losses."""
    # A second batch is recorded without its logits.
    if "mlm_logits" in recorded:
        comparison.close("mlm_logits", output.logits, recorded["mlm_logits"], TOLERANCE)
    for name, value in (
        ("mlm_per_example_loss", output.per_example_loss),
        ("mlm_loss", output.loss),
    ):
        comparison.close(name, value, recorded[name], TOLERANCE)
    comparison.equal("mlm_preds", output.preds, recorded["mlm_preds"])


def compare_cloze(
    output: ClozeOutput | None, recorded: Recorded, comparison: Comparison
) -> None:
    """Compares a two-tower generator's predictions of all tokens, where they were recorded."""
    if output is None or "cloze_weights" not in recorded:
        return
    comparison.equal("cloze_weights", output.weights, recorded["cloze_weights"])
    comparison.close("cloze_loss", output.loss, recorded["cloze_loss"], TOLERANCE)
    # Rows of padding, and the one before them, see the rounded scores of padding.
    predicted = recorded["cloze_weights"].astype(bool)
    losses = recorded["cloze_per_example_loss"]
    comparison.close(
        "cloze_per_example_loss", output.per_token_loss[predicted], losses[predicted], TOLERANCE
    )
    comparison.equal("cloze_preds", output.preds[predicted], recorded["cloze_preds"][predicted])
    for name in recorded:
        if name.startswith(LOGITS_OF_A_ROW):
            row = int(name.removeprefix(LOGITS_OF_A_ROW))
            actual, expected = output.logits[row][predicted[row]], recorded[name]
            comparison.close(name, actual, expected[predicted[row]], TOLERANCE)


def compare_corruption(fake: FakeData, recorded: Recorded, comparison: Comparison) -> None:
    """Compares the corrupted ids and, where they were recorded, their labels."""
    expected = recorded["corrupted_input_ids"]
    comparison.equal("corrupted_input_ids", fake.inputs.input_ids, expected)
    if "disc_labels" in recorded:
        comparison.equal("disc_labels", fake.is_fake_tokens, recorded["disc_labels"])


def compare_discriminator(
    output: DiscriminatorOutput, recorded: Recorded, comparison: Comparison
) -> None:
    """Compares the discriminator's logits, predictions and losses."""
    for name in ("logits", "probs", "per_example_loss", "loss"):
        expected = recorded[f"disc_{name}"]
        comparison.close(f"disc_{name}", getattr(output, name), expected, TOLERANCE)
    comparison.equal("disc_preds", output.preds, recorded["disc_preds"])


def compare_metrics(
    sums: Mapping[str, np.ndarray], recorded: Recorded, comparison: Comparison
) -> None:
    """Compares the values of all recorded metrics."""
    values = metrics.finalize(sums)
    for name in recorded:
        actual, expected = values[METRIC_NAMES.get(name, name)], recorded[name]
        # A mean over nothing is NaN here and 0 in tf.metrics.
        actual = 0.0 if np.isnan(actual) and expected == 0 else actual
        comparison.close(name, actual, expected, TOLERANCE)
