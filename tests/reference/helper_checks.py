"""Compares gathering, scattering, sampling and masking with the authors' helpers.

Masking draws other random numbers than theirs, so its frequencies are compared as two
samples of one distribution.
"""

import functools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.generators.sampling import sample_from_softmax
from electra_tf.masking.masked_batch import (
    MASK_TOKEN_PROB,
    candidates_mask,
    mask,
    num_to_predict,
    unmask,
)
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from electra_tf.model.positions import gather_positions, scatter_update
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from tests.reference.compare_outputs import Recorded
from tests.reference.masking_statistics import Draws, deviations
from tests.reference.result import CheckResult, Comparison, guarded, skip

VOCABULARY = "tiny_vocab.txt"
TOLERANCE = 1e-6
# Standard deviations; some thousand frequencies are compared.
MAX_DEVIATION = 5.0
DRAWS = 3000
SEED = 7

Arrays = Mapping[str, np.ndarray]


def check_helpers(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields one result for each helper, from `helpers.npz` and `helpers_config.json`."""
    loaded = dict(np.load(reference_dir / "helpers.npz"))
    arrays = Recorded(
        # The helpers take integers of any width, as int32.
        {k: a.astype(np.int32) if a.dtype.kind == "i" else a for k, a in loaded.items()}
    )
    config = json.loads((reference_dir / "helpers_config.json").read_text())
    ids = config["tiny_vocab_ids"]
    special = SpecialTokenIds(cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])
    vocabulary = reference_dir / VOCABULARY
    if vocabulary.exists():
        yield check_special_ids(load_vocabulary(vocabulary), ids)
    for name, check in _checks(arrays, config, special):
        # What a set lacks is the failure of one check, not the end of the others.
        yield from guarded(f"helpers {name}", lambda check=check: [check()])
    if unread := arrays.unread():
        yield skip("helpers not compared", ", ".join(unread))


def check_special_ids(vocabulary: Vocabulary, recorded: Mapping[str, int]) -> CheckResult:
    """Compares the special ids with their lines in the vocabulary of the models."""
    comparison = Comparison(f"helpers {VOCABULARY}")
    for token, token_id in recorded.items():
        comparison.equal(token, vocabulary.ids.get(token, -1), token_id)
    return comparison.result()


def _checks(
    arrays: Arrays, config: dict[str, Any], special: SpecialTokenIds
) -> Iterator[tuple[str, Callable[[], CheckResult]]]:
    yield "gather_positions", lambda: check_gather(arrays)
    yield "scatter_update", lambda: check_scatter(arrays)
    yield "candidates_mask", lambda: check_candidates(arrays, special)
    yield "unmask", lambda: check_unmask(arrays)
    for name in ("sample", "sample_disallow"):
        yield f"sample_from_softmax {name}", functools.partial(check_sampling, arrays, name)
    yield "num_to_predict", lambda: check_num_to_predict(arrays, config["num_to_predict_rows"])
    for name in config:
        if not name.startswith("mask_"):
            continue
        case = _Case(arrays, f"{name}/")
        yield name, functools.partial(check_recorded_masks, name, case, special)
        yield name, functools.partial(check_summaries, name, case)
        for check in (check_masking_with_replacement, check_masking):
            yield name, functools.partial(check, name, case, config[name], special)
    if recorded := config.get("sequence_with_no_candidates"):
        pad = config["tiny_vocab_ids"]["[PAD]"]
        yield "no_candidates", lambda: check_no_candidates(recorded, special, pad)


class _Case(Mapping):
    """The arrays of one case of masking, by their names in it."""

    def __init__(self, arrays: Arrays, prefix: str) -> None:
        self._arrays, self._prefix = arrays, prefix

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        own = (name for name in self._arrays if name.startswith(self._prefix))
        return (name.removeprefix(self._prefix) for name in own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def check_gather(arrays: Arrays) -> CheckResult:
    """Compares gather_positions on ids, numbers and vectors."""
    comparison = Comparison("helpers gather_positions")
    for source, expected in (
        ("seq_int", "gather_rank2_int"),
        ("seq_float", "gather_rank2_float"),
        ("seq_float3", "gather_rank3"),
    ):
        actual = gather_positions(arrays[source], arrays["positions"])
        comparison.equal(expected, actual, arrays[expected])
    return comparison.result()


def check_scatter(arrays: Arrays) -> CheckResult:
    """Compares scatter_update on ids, numbers and vectors, with repeated positions."""
    comparison = Comparison("helpers scatter_update")
    for kind in ("int", "float", "float3"):
        sequence, written = scatter_update(
            tf.constant(arrays[f"seq_{kind}"]),
            tf.constant(arrays[f"updates_{kind}"]),
            tf.constant(arrays["positions"]),
        )
        expected = arrays[f"scatter_{kind}_sequence"]
        if kind == "int":
            comparison.equal(f"{kind} sequence", sequence, expected)
        else:
            comparison.close(f"{kind} sequence", sequence, expected, TOLERANCE)
        comparison.equal(f"{kind} mask", written, arrays[f"scatter_{kind}_mask"])
    return comparison.result()


def check_candidates(arrays: Arrays, special: SpecialTokenIds) -> CheckResult:
    """Compares candidates_mask, with and without forbidden positions."""
    comparison = Comparison("helpers candidates_mask")
    ids = tf.constant(arrays["cand_input_ids"])
    inputs = PretrainInputs(ids, tf.constant(arrays["cand_input_mask"]), tf.zeros_like(ids))
    for name, disallow in (
        ("candidates_mask", None),
        ("candidates_mask_with_disallow", tf.constant(arrays["cand_disallow"])),
    ):
        actual = candidates_mask(inputs, special, disallow)
        comparison.equal(name, actual, arrays[name])
    return comparison.result()


def check_unmask(arrays: Arrays) -> CheckResult:
    """Compares unmask."""
    comparison = Comparison("helpers unmask")
    ids = tf.constant(arrays["cand_input_ids"])
    inputs = PretrainInputs(
        ids,
        tf.constant(arrays["cand_input_mask"]),
        tf.zeros_like(ids),
        masked_lm_positions=tf.constant(arrays["unmask_positions"]),
        masked_lm_ids=tf.constant(arrays["unmask_ids"]),
    )
    expected = arrays["unmask_input_ids"]
    comparison.equal("input_ids", unmask(inputs).input_ids, expected)
    return comparison.result()


def check_sampling(arrays: Arrays, name: str) -> CheckResult:
    """Compares sample_from_softmax, fed with the recorded uniform noise."""
    comparison = Comparison(f"helpers sample_from_softmax {name}")
    logits = arrays["sample_logits"]
    disallow = None
    if name == "sample_disallow":
        # Theirs takes one-hot rows, ours the ids; -1 forbids nothing.
        one_hot = arrays["sample_disallow"]
        comparison.true("one-hot", bool((one_hot.sum(-1) <= 1).all()), "several ids a position")
        disallow = np.where(one_hot.any(-1), one_hot.argmax(-1), -1).astype(np.int32)
    sampled = sample_from_softmax(
        tf.constant(logits),
        disallow=disallow,
        uniform_noise=tf.constant(arrays[f"{name}_uniform_noise"]),
    )
    one_hot = tf.one_hot(sampled, logits.shape[-1])
    comparison.equal("samples", one_hot, arrays[f"{name}_onehot"])
    return comparison.result()


def check_num_to_predict(arrays: Arrays, rows: list[dict]) -> CheckResult:
    """Compares the number of masked positions for every length."""
    comparison = Comparison("helpers num_to_predict")
    lengths = arrays["num_to_predict_num_tokens"]
    for row, expected in zip(rows, arrays["num_to_predict"], strict=True):
        length, slots = row["max_seq_length"], row["max_predictions_per_seq"]
        input_mask = tf.sequence_mask(lengths, length, dtype=tf.int32)
        actual = num_to_predict(input_mask, row["mask_prob"], slots)
        label = f"mask_prob {row['mask_prob']}"
        # Where theirs leaves no room for a masked token, ours leaves room for one.
        comparison.equal(label, actual, np.maximum(1, expected))
        config = PretrainingConfig.create(
            data_dir="-",
            model_name="reference",
            mask_prob=row["mask_prob"],
            max_seq_length=length,
            model_hparam_overrides={"max_position_embeddings": length},
        )
        comparison.equal(f"{label} slots", config.max_predictions_per_seq, max(1, slots))
    return comparison.result()


def check_recorded_masks(name: str, case: Arrays, special: SpecialTokenIds) -> CheckResult:
    """Puts the tokens back into the recorded example draws."""
    comparison = Comparison(f"helpers {name} examples")
    masked = case["example_masked_input_ids"]
    rows = len(masked) // len(case["input_ids"])
    original, input_mask = (
        np.repeat(case[name], rows, axis=0) for name in ("input_ids", "input_mask")
    )
    inputs = PretrainInputs(
        tf.constant(masked),
        tf.constant(input_mask),
        tf.zeros_like(masked),
        *(tf.constant(case[f"example_{k}"]) for k in ("positions", "ids", "weights")),
    )
    comparison.equal("unmasked", unmask(inputs).input_ids, original)
    used = case["example_weights"].astype(np.int32)
    gathered = gather_positions(original, inputs.masked_lm_positions)
    comparison.equal("ids", gathered * used, case["example_ids"])
    return comparison.result()


def check_summaries(name: str, case: Arrays) -> CheckResult:
    """Recomputes the recorded means and shares from the counts, which ours is compared with."""
    comparison = Comparison(f"helpers {name} summaries")
    slots = case["slots_per_sequence"].astype(np.float64)
    histogram = case["distinct_positions_histogram"].astype(np.float64)
    frequencies = histogram / histogram.sum(axis=-1, keepdims=True)
    numbers = np.arange(histogram.shape[-1])
    duplicates = slots - frequencies @ numbers
    repeated = (frequencies * (numbers < slots[:, None])).sum(axis=-1)
    shown = case["replaced_by_multiplicity"].sum(axis=1)
    for label, actual in (
        ("mean_duplicate_slots", duplicates),
        ("share_of_sequences_with_a_duplicate", repeated),
        ("share_of_slots_that_are_duplicates", duplicates / slots),
        ("share_of_distinct_positions_replaced_with_MASK", shown[:, 1] / shown[:, 0]),
    ):
        comparison.close(label, actual, case[label], TOLERANCE)
    return comparison.result()


def _draw(case: Arrays, settings: dict, special: SpecialTokenIds, **options: bool) -> Draws:
    """Masks every recorded sequence `DRAWS` times in one batch."""
    ids, input_mask = (np.repeat(case[k], DRAWS, axis=0) for k in ("input_ids", "input_mask"))
    inputs = PretrainInputs(tf.constant(ids), tf.constant(input_mask), tf.zeros_like(ids))
    masked = mask(
        inputs,
        special,
        randomness.make_key(SEED, 0, "masking"),
        mask_prob=settings["mask_prob"],
        max_predictions_per_seq=settings["max_predictions_per_seq"],
        **options,
    )
    candidates = candidates_mask(inputs, special)
    return Draws.of(masked, ids, candidates, special.mask, DRAWS)


def check_masking_with_replacement(
    name: str, case: Arrays, settings: dict, special: SpecialTokenIds
) -> CheckResult:
    """Compares the parity mode: the number of slots exactly, frequencies statistically."""
    comparison = Comparison(f"helpers {name} with replacement")
    draws = _draw(case, settings, special, with_replacement=True)
    slots = case["slots_per_sequence"]
    comparison.equal("slots", draws.slots, np.repeat(slots[:, None], DRAWS, axis=1))
    comparison.true("candidates", draws.all_candidates(), "other tokens were masked")
    comparison.true("ids", draws.ids_agree, "other than the original tokens")
    count = int(case["n_draws"])
    trials = slots[:, None].astype(np.float64)
    for label, ours, our_trials, theirs, their_trials in (
        (
            "slot_frequency",
            draws.slot_counts(),
            trials * DRAWS,
            case["slot_frequency"] * count,
            trials * count,
        ),
        (
            "distinct_position_frequency",
            draws.position_counts(),
            DRAWS,
            case["distinct_position_frequency"] * count,
            count,
        ),
        (
            "distinct_positions_histogram",
            draws.distinct_histogram(settings["max_predictions_per_seq"] + 1),
            DRAWS,
            case["distinct_positions_histogram"],
            count,
        ),
        (
            "replaced_by_multiplicity",
            draws.replaced_by_multiplicity()[..., 1],
            draws.replaced_by_multiplicity()[..., 0],
            case["replaced_by_multiplicity"][..., 1],
            case["replaced_by_multiplicity"][..., 0],
        ),
    ):
        worst = np.max(deviations(ours, our_trials, theirs, their_trials))
        comparison.difference(f"{label} (deviations)", worst, MAX_DEVIATION)
    return comparison.result()


def check_masking(
    name: str, case: Arrays, settings: dict, special: SpecialTokenIds
) -> CheckResult:
    """Checks our default, which draws without replacement."""
    comparison = Comparison(f"helpers {name} without replacement")
    draws = _draw(case, settings, special)
    available = draws.candidates.sum(-1)
    slots = np.minimum(case["slots_per_sequence"], available)
    comparison.equal("slots", draws.slots, np.repeat(slots[:, None], DRAWS, axis=1))
    comparison.equal("distinct positions", draws.distinct(), draws.slots)
    comparison.true("candidates", draws.all_candidates(), "other tokens were masked")
    comparison.true("ids", draws.ids_agree, "other than the original tokens")
    expected = draws.candidates * (slots / np.maximum(available, 1))[:, None]
    counts = draws.position_counts()
    worst = np.max(deviations(counts, DRAWS, expected * DRAWS, DRAWS))
    comparison.difference("frequencies (deviations)", worst, MAX_DEVIATION)
    replaced = draws.replaced_by_multiplicity()[:, 1]
    share = MASK_TOKEN_PROB * replaced[:, 0]
    worst = np.max(deviations(replaced[:, 1], replaced[:, 0], share, replaced[:, 0]))
    comparison.difference("replaced (deviations)", worst, MAX_DEVIATION)
    return comparison.result()


def check_no_candidates(recorded: dict, special: SpecialTokenIds, pad_id: int) -> CheckResult:
    """Checks a row that holds nothing to mask: theirs reads the next row, ours leaves it."""
    comparison = Comparison("helpers sequence_with_no_candidates")
    ids = tf.constant(recorded["input_ids"])
    inputs = PretrainInputs(ids, tf.cast(ids != pad_id, tf.int32), tf.zeros_like(ids))
    nothing = ~tf.reduce_any(candidates_mask(inputs, special), axis=-1)
    comparison.true("row", bool(tf.reduce_any(nothing)), "every row has a candidate")
    for with_replacement in (False, True):
        masked = mask(
            inputs,
            special,
            randomness.make_key(SEED, 0, "masking"),
            mask_prob=0.15,
            max_predictions_per_seq=2,
            with_replacement=with_replacement,
        )
        label = f"with_replacement={with_replacement}"
        weights = tf.boolean_mask(masked.masked_lm_weights, nothing)
        comparison.equal(f"{label} weights", weights, np.zeros_like(weights))
        kept = tf.boolean_mask(masked.input_ids, nothing)
        comparison.equal(f"{label} ids", kept, tf.boolean_mask(ids, nothing))
        others = tf.reduce_sum(tf.boolean_mask(masked.masked_lm_weights, ~nothing), axis=-1)
        comparison.true(f"{label} others", bool(tf.reduce_all(others > 0)), "not masked")
    return comparison.result()
