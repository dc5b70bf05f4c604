"""The diagnoses: each judges the log records of a run after its warm-up.

A diagnosis is made if the last few records agree; it names the first step of the records that
do.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from electra_tf.text.tokenizer_description import MAX_UNKNOWN
from electra_tf.training.monitoring.run_info import is_number
from electra_tf.training.variable_groups import GRADIENT_NORM, UPDATE_RATIO

# Number of consecutive training records that must agree on a diagnosis.
RECORDS = 3
# Fractions of a run before which generator, discriminator recall and AUC are not judged, since
# they look like failures early in a healthy run.
_GENERATOR_FROM, _RECALL_FROM, _AUC_FROM = 0.25, 0.25, 0.5
# A low AUC is judged later still: some discriminators learn suddenly, late.
_LOW_AUC_FROM = 0.75
# The generator is at the most frequent token below this multiple of that token's share.
_UNIGRAM_FACTOR = 1.15
_MIN_RECALL = 0.01
# Fraction of the entropy of the replaced share. A discriminator with a loss above it has
# learned nothing but this share.
_ENTROPY_FACTOR = 0.97
_MIN_AUC = 0.55
# Of the runs in benchmarks/results/study/runs, those of Electric aside, five of nine whose AUC
# ends below this are no better than random weights after fine-tuning (chunk F1 69.7); all
# others are, by 3.6 or more.
_LOW_AUC = 0.62
# A discriminator that uses token frequencies only has an AUC within a token of 0.5. It is
# judged only if its AUC is high.
_HIGH_AUC, _MIN_WITHIN_TOKEN, _EVALUATIONS = 0.65, 0.52, 2
# Fraction of the masking rate below which hardly any token is replaced.
_MIN_REPLACED = 0.1
# Ratio of the gradient norm to the median of the earlier records, and how many of these are
# needed.
_EXPLOSION, _EARLIER_RECORDS = 10.0, 5
# Update-to-weight ratios; about 0.001 is typical.
_MAX_UPDATE, _MIN_UPDATE = 0.1, 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What the diagnoses need to know about a run, besides its log.

    Attributes:
        num_train_steps: total number of training steps.
        num_warmup_steps: steps of the warm-up, which are not judged.
        mask_prob: masking rate; None outside of pre-training.
        generator_learns: whether the generator is a network.
        is_adversarial: whether the generator is trained to fool the discriminator.
        has_energies: whether the discriminator estimates how likely tokens are (Electric). Good
            noise is as likely as the text, so a healthy run can have an AUC near chance.
        gen_weight, disc_weight: weights of the losses.
        unigram_accuracy: masked-LM accuracy of always predicting the most frequent token.
        unknown_share: share of unknown words in the records.
        warmup_flag: flag that lengthens the warm-up.
        generator_flag: flag that makes the generator smaller than the discriminator.
        stop_flag: flag of the steps between evaluations.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    mask_prob: float | None = None
    generator_learns: bool = True
    is_adversarial: bool = False
    has_energies: bool = False
    gen_weight: float = 1.0
    disc_weight: float = 50.0
    unigram_accuracy: float | None = None
    unknown_share: float | None = None
    warmup_flag: str = "--num_warmup_steps"
    generator_flag: str = "--generator_hidden_size"
    stop_flag: str = "--save_checkpoints_steps"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a run.

    Attributes:
        name: short name of the diagnosis.
        since: first step of the records that show it; 0 if all do.
        finding: what is wrong, with the numbers.
        flags: the two flags to try first.
    """

    name: str
    since: int
    finding: str
    flags: tuple[str, str]

    def line(self) -> str:
        """Returns the diagnosis as one line."""
        first, second = self.flags
        return f"since step {self.since:,}: {self.finding}. Try first: {first}, {second}"


def entropy(share: float) -> float:
    """Returns the entropy of a binary variable in nats."""
    if not 0.0 < share < 1.0:
        return 0.0
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def unknown_words(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """Many words of the records are unknown."""
    if facts.unknown_share is None or facts.unknown_share <= MAX_UNKNOWN:
        return None
    return Diagnosis(
        "unknown words",
        0,
        f"{facts.unknown_share:.1%} of the words of the records are unknown, so the "
        "vocabulary or its casing does not fit the text",
        ("--vocab_file", "--do_lower_case"),
    )


def few_replaced_tokens(
    records: Sequence[Mapping[str, Any]], facts: RunFacts
) -> Diagnosis | None:
    """Hardly any token is replaced."""
    if not facts.mask_prob:
        return None
    lowest = _MIN_REPLACED * facts.mask_prob
    streak = _streak(records, lambda r: r["replaced_share"] < lowest, ("replaced_share",))
    if streak is None:
        return None
    return Diagnosis(
        "hardly any token is replaced",
        streak[0]["step"],
        f"hardly any tokens are replaced ({streak[-1]['replaced_share']:.2%} with a masking "
        f"rate of {facts.mask_prob:.0%}), so the discriminator has little to detect",
        ("--disallow_correct", facts.generator_flag),
    )


def unigram_generator(
    records: Sequence[Mapping[str, Any]], facts: RunFacts
) -> Diagnosis | None:
    """The generator is at the most frequent token."""
    baseline = facts.unigram_accuracy
    if baseline is None or not facts.generator_learns:
        return None
    late = _records_after(records, _GENERATOR_FROM, facts)
    name = "masked_lm_accuracy"
    streak = _streak(late, lambda r: r[name] <= _UNIGRAM_FACTOR * baseline, (name,))
    if streak is None:
        return None
    if facts.is_adversarial:
        # A discriminator that cannot tell samples apart rewards every wrong one.
        usual = ("--init_checkpoint", "--generator_learning_rate")
    else:
        usual = ("--learning_rate", facts.warmup_flag)
    return Diagnosis(
        "generator at the most frequent token",
        streak[0]["step"],
        f"the generator predicts no better than the most frequent token (masked-LM accuracy "
        f"{streak[-1][name]:.3f}, the token's share {baseline:.3f})",
        _flags(usual, gen_weight=facts.gen_weight),
    )


def always_original(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """The discriminator predicts "original" for every token."""

    def nothing_found(record: Mapping[str, Any]) -> bool:
        floor = _ENTROPY_FACTOR * entropy(record["replaced_share"])
        return record["disc_recall"] < _MIN_RECALL and record["disc_loss"] >= floor > 0

    names = ("disc_recall", "disc_loss", "replaced_share")
    streak = _streak(_records_after(records, _RECALL_FROM, facts), nothing_found, names)
    if streak is None:
        return None
    last = streak[-1]
    return Diagnosis(
        "discriminator always says original",
        streak[0]["step"],
        f'the discriminator predicts "original" for every token (recall '
        f"{last['disc_recall']:.3f}; loss {last['disc_loss']:.4f}, and "
        f"{entropy(last['replaced_share']):.4f} is the entropy of the replaced share)",
        _flags(("--learning_rate", "--temperature"), disc_weight=facts.disc_weight),
    )


def auc_at_chance(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """The discriminator does not distinguish replaced tokens from original ones."""
    late = _records_after(records, _AUC_FROM, facts)
    streak = _streak(late, lambda r: r["disc_auc"] < _MIN_AUC, ("disc_auc",))
    if streak is None:
        return None
    return Diagnosis(
        "discriminator at chance",
        streak[0]["step"],
        f"the discriminator does not tell replaced tokens from original ones (AUC "
        f"{streak[-1]['disc_auc']:.3f}; 0.5 is chance)",
        _flags(("--learning_rate", facts.generator_flag), disc_weight=facts.disc_weight),
    )


def low_auc(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """The discriminator has learned little, though its loss may fall."""
    late = _records_after(records, _LOW_AUC_FROM, facts)
    streak = _streak(late, lambda r: r["disc_auc"] < _LOW_AUC, ("disc_auc",))
    if streak is None:
        return None
    return Diagnosis(
        "discriminator has learned little",
        streak[0]["step"],
        f"the discriminator has learned little (AUC {streak[-1]['disc_auc']:.3f}; 0.5 is "
        "chance), so its encoder may be worth no more than random weights",
        _flags(("--temperature", facts.generator_flag), disc_weight=facts.disc_weight),
    )


def detection_by_frequency(
    evaluations: Sequence[Mapping[str, Any]], facts: RunFacts
) -> Diagnosis | None:
    """The discriminator relies on token frequencies; `evaluations` are of held-out text."""

    def by_frequency(record: Mapping[str, Any]) -> bool:
        within = record["disc_auc_within_token"]
        return record["disc_auc"] >= _HIGH_AUC and within < _MIN_WITHIN_TOKEN

    names = ("disc_auc", "disc_auc_within_token")
    late = _records_after(evaluations, _AUC_FROM, facts)
    streak = _streak(late, by_frequency, names, shortest=_EVALUATIONS)
    if streak is None:
        return None
    last = streak[-1]
    return Diagnosis(
        "detection by token frequency",
        streak[0]["step"],
        "the discriminator relies on how often each token is replaced, not on the context (on "
        f"held-out text, AUC {last['disc_auc']:.3f}, but {last['disc_auc_within_token']:.3f} "
        "among occurrences of the same token; 0.5 is chance)",
        ("--temperature", facts.generator_flag),
    )


def exploding_gradient(
    records: Sequence[Mapping[str, Any]], facts: RunFacts
) -> Diagnosis | None:
    """The gradient norm explodes."""
    name = "gradient_norm"
    with_norm = [r for r in records if is_number(r.get(name))]
    earlier = with_norm[:-RECORDS]
    if len(earlier) < _EARLIER_RECORDS:
        return None
    usual = statistics.median(r[name] for r in earlier)
    streak = _streak(with_norm, lambda r: r[name] > _EXPLOSION * usual > 0, (name,))
    if streak is None:
        return None
    last = streak[-1]
    largest = _largest(last, GRADIENT_NORM)
    where = "" if largest is None else f", most of it in {largest[0]}"
    return Diagnosis(
        "gradient norm explodes",
        streak[0]["step"],
        f"the gradient norm explodes ({last[name]:.3g}{where}; the median before was "
        f"{usual:.3g})",
        ("--learning_rate", facts.warmup_flag),
    )


def large_updates(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """Updates are large relative to the weights."""

    def is_large(record: Mapping[str, Any]) -> bool:
        largest = _largest(record, UPDATE_RATIO)
        return largest is not None and largest[1] > _MAX_UPDATE

    # Also of earlier records: at the end, the learning rate has decayed to 0.
    runs = [list(run) for wrong, run in itertools.groupby(records, is_large) if wrong]
    streak = next((run for run in reversed(runs) if len(run) >= RECORDS), None)
    if streak is None:
        return None
    last = streak[-1]
    until = "" if last is records[-1] else f", until step {last['step']:,}"
    layer, ratio = _largest(last, UPDATE_RATIO)
    return Diagnosis(
        "updates too large",
        streak[0]["step"],
        f"an update changes the weights of {layer} by {ratio:.0%} of their norm{until} (0.1 % "
        "is typical), so the learning rate is too high for this model",
        ("--learning_rate", facts.warmup_flag),
    )


def small_updates(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    """Updates hardly change the weights."""
    highest, count = 0.0, 0
    for record in records:
        largest = _largest(record, UPDATE_RATIO)
        highest = max(highest, largest[1] if largest else 0.0)
        count += largest is not None
        if highest >= _MIN_UPDATE:
            return None
    # All records must agree: towards the end, the learning rate decays to 0.
    if count < RECORDS:
        return None
    return Diagnosis(
        "updates too small",
        records[0]["step"],
        f"updates change no layer by more than {highest:.1e} of its norm (1e-3 is typical)",
        ("--learning_rate", "--clip_norm"),
    )


def _flags(usual: tuple[str, str], **weights: float) -> tuple[str, str]:
    """Returns the flags to try first: those of losses with weight 0, or else the usual ones."""
    unweighted = [f"--{name}" for name, weight in weights.items() if not weight]
    first, second = [*unweighted, *usual][:2]
    return first, second


def _largest(record: Mapping[str, Any], prefix: str) -> tuple[str, float] | None:
    """Returns the group of layers with the largest value, and the value."""
    values = {
        name.removeprefix(prefix): value
        for name, value in record.items()
        if name.startswith(prefix) and is_number(value)
    }
    return max(values.items(), key=lambda item: item[1], default=None)


def _records_after(
    records: Sequence[Mapping[str, Any]], share: float, facts: RunFacts
) -> list[Mapping[str, Any]]:
    return [r for r in records if r["step"] >= share * facts.num_train_steps]


def _streak(
    records: Sequence[Mapping[str, Any]],
    is_wrong: Callable[[Mapping[str, Any]], bool],
    names: Sequence[str],
    *,
    shortest: int = RECORDS,
) -> list[Mapping[str, Any]] | None:
    """Returns the unbroken streak of wrong records at the end; None if it is too short."""
    streak: list[Mapping[str, Any]] = []
    for record in reversed(records):
        if not all(is_number(record.get(name)) for name in names) or not is_wrong(record):
            break
        streak.append(record)
    return streak[::-1] if len(streak) >= shortest else None
