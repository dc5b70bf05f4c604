"""Diagnoses of a run from its logged metrics: runs that converge and are worthless.

A diagnosis needs the last few records to agree, after the warm-up, and names the step since
which they do. No TensorFlow is imported here.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# A diagnosis is what this many records of training in a row say.
_RECORDS = 3
# Shares of the run before which the generator, the discriminator's recall and its AUC are
# not judged: in the first steps of a healthy run, all of them look like this.
_GENERATOR_FROM, _RECALL_FROM, _AUC_FROM = 0.25, 0.25, 0.5
# The generator is at the most frequent token below this multiple of that token's share.
_UNIGRAM_FACTOR = 1.15
_LOWEST_RECALL = 0.01
# Of the entropy of the replaced share: a loss above it has learned nothing but this share.
_ENTROPY_FACTOR = 0.97
_LOWEST_AUC = 0.55
# Of the masking rate.
_LOWEST_REPLACED = 0.1
_HIGHEST_UNKNOWN = 0.05
# Gradient norm over the median of the earlier records, of which there must be some.
_EXPLOSION, _EARLIER_RECORDS = 10.0, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What the diagnoses need to know about a run, besides its log.

    Attributes:
        num_train_steps: total number of training steps.
        num_warmup_steps: steps of the warm-up, which are not judged.
        mask_prob: masking rate; None outside of pre-training.
        generator_learns: whether the generator is a network.
        unigram_accuracy: masked-LM accuracy of always predicting the most frequent token.
        unknown_share: share of unknown tokens in the records.
        warmup_flag: flag that lengthens the warm-up.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    mask_prob: float | None = None
    generator_learns: bool = True
    unigram_accuracy: float | None = None
    unknown_share: float | None = None
    warmup_flag: str = "--num_warmup_steps"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a run.

    Attributes:
        name: short name of the diagnosis.
        since: first step of the records that say so; 0 if it was so from the start.
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


def facts_of(
    hyperparameters: Mapping[str, Any],
    *,
    unigram_accuracy: float | None = None,
    unknown_share: float | None = None,
    num_train_steps: int | None = None,
) -> RunFacts:
    """Returns the facts of a run, given its hyperparameters.

    Args:
        hyperparameters: of `PretrainingConfig` or `FinetuningConfig`, or its `config.json`.
        unigram_accuracy, unknown_share: see `RunFacts`; None if unknown.
        num_train_steps: of fine-tuning, whose hyperparameters are epochs.
    """
    steps = num_train_steps or int(hyperparameters.get("num_train_steps") or 0)
    if "task_names" in hyperparameters:
        share = hyperparameters.get("warmup_proportion") or 0.0
        return RunFacts(
            num_train_steps=steps,
            num_warmup_steps=int(share * steps),
            warmup_flag="--warmup_proportion",
        )
    return RunFacts(
        num_train_steps=steps,
        num_warmup_steps=int(hyperparameters.get("num_warmup_steps") or 0),
        mask_prob=hyperparameters.get("mask_prob"),
        generator_learns=hyperparameters.get("generator_type") not in ("uniform", "unigram"),
        unigram_accuracy=unigram_accuracy,
        unknown_share=unknown_share,
    )


def diagnose(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> list[Diagnosis]:
    """Returns what is wrong with a run, given the records of its log so far."""
    training = [record for record in records if record.get("kind") == "train"]
    training = [r for r in training if r["step"] > facts.num_warmup_steps]
    found = [
        diagnosis(training, facts)
        for diagnosis in (_unknown_tokens, _replaced_share, _generator, _says_original)
    ]
    if found[-1] is None:
        found.append(_auc(training, facts))
    found.append(_gradient(training, facts))
    return [each for each in found if each is not None]


class HealthWatch:
    """Diagnoses a run while it trains, and reports each diagnosis once.

    Args:
        facts: what is known about the run.
        records: records of the log before the current start.
    """

    def __init__(self, facts: RunFacts, records: Sequence[Mapping[str, Any]] = ()) -> None:
        self._facts = facts
        self._records = [dict(record) for record in records]
        self._reported: set[str] = set()

    def add(self, record: Mapping[str, Any]) -> list[str]:
        """Takes a record of the log; returns lines about what is newly wrong."""
        self._records.append(dict(record))
        found = diagnose(self._records, self._facts)
        new = [each for each in found if each.name not in self._reported]
        self._reported = {each.name for each in found}
        return [f"Health: {each.line()}" for each in new]

    def summary(self) -> list[str]:
        """Returns a line for everything that is wrong at the end."""
        return [f"Health:      {each.line()}" for each in diagnose(self._records, self._facts)]


def entropy(share: float) -> float:
    """Returns the entropy of a binary variable in nats."""
    if not 0.0 < share < 1.0:
        return 0.0
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def _unknown_tokens(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    if facts.unknown_share is None or facts.unknown_share <= _HIGHEST_UNKNOWN:
        return None
    return Diagnosis(
        "unknown tokens",
        0,
        f"{facts.unknown_share:.1%} of the tokens of the records are unknown, so the "
        "vocabulary or its casing does not fit the text",
        ("--vocab_file", "--do_lower_case"),
    )


def _replaced_share(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    if not facts.mask_prob:
        return None
    lowest = _LOWEST_REPLACED * facts.mask_prob
    streak = _streak(records, lambda r: r["replaced_share"] < lowest, ("replaced_share",))
    if streak is None:
        return None
    return Diagnosis(
        "hardly any token is replaced",
        streak[0]["step"],
        f"hardly any token is replaced ({streak[-1]['replaced_share']:.2%} with a masking "
        f"rate of {facts.mask_prob:.0%}), so the discriminator has nothing to find",
        ("--disallow_correct", "--generator_hidden_size"),
    )


def _generator(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    baseline = facts.unigram_accuracy
    if baseline is None or not facts.generator_learns:
        return None
    late = _from(records, _GENERATOR_FROM, facts)
    name = "masked_lm_accuracy"
    streak = _streak(late, lambda r: r[name] <= _UNIGRAM_FACTOR * baseline, (name,))
    if streak is None:
        return None
    return Diagnosis(
        "generator at the most frequent token",
        streak[0]["step"],
        f"the generator predicts no better than the most frequent token (masked-LM accuracy "
        f"{streak[-1][name]:.3f}, the token's share {baseline:.3f})",
        ("--learning_rate", facts.warmup_flag),
    )


def _says_original(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    def nothing_found(record: Mapping[str, Any]) -> bool:
        floor = _ENTROPY_FACTOR * entropy(record["replaced_share"])
        return record["disc_recall"] < _LOWEST_RECALL and record["disc_loss"] >= floor > 0

    names = ("disc_recall", "disc_loss", "replaced_share")
    streak = _streak(_from(records, _RECALL_FROM, facts), nothing_found, names)
    if streak is None:
        return None
    last = streak[-1]
    return Diagnosis(
        "discriminator always says original",
        streak[0]["step"],
        f'the discriminator says "original" of every token (recall {last["disc_recall"]:.3f}; '
        f"loss {last['disc_loss']:.4f}, and {entropy(last['replaced_share']):.4f} is the "
        "entropy of the replaced share)",
        ("--learning_rate", "--temperature"),
    )


def _auc(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    late = _from(records, _AUC_FROM, facts)
    streak = _streak(late, lambda r: r["disc_auc"] < _LOWEST_AUC, ("disc_auc",))
    if streak is None:
        return None
    return Diagnosis(
        "discriminator at chance",
        streak[0]["step"],
        f"the discriminator does not tell replaced tokens from original ones (AUC "
        f"{streak[-1]['disc_auc']:.3f}; 0.5 is chance)",
        ("--learning_rate", "--generator_hidden_size"),
    )


def _gradient(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> Diagnosis | None:
    name = "gradient_norm"
    with_norm = [r for r in records if _is_number(r.get(name))]
    earlier = with_norm[:-_RECORDS]
    if len(earlier) < _EARLIER_RECORDS:
        return None
    usual = statistics.median(r[name] for r in earlier)
    streak = _streak(with_norm, lambda r: r[name] > _EXPLOSION * usual > 0, (name,))
    if streak is None:
        return None
    return Diagnosis(
        "gradient norm explodes",
        streak[0]["step"],
        f"the gradient norm explodes ({streak[-1][name]:.3g}; before, {usual:.3g} was usual)",
        ("--learning_rate", facts.warmup_flag),
    )


def _from(
    records: Sequence[Mapping[str, Any]], share: float, facts: RunFacts
) -> list[Mapping[str, Any]]:
    return [r for r in records if r["step"] >= share * facts.num_train_steps]


def _streak(
    records: Sequence[Mapping[str, Any]],
    is_wrong: Callable[[Mapping[str, Any]], bool],
    names: Sequence[str],
) -> list[Mapping[str, Any]] | None:
    """Returns the last records that are wrong without a break; None if they are few."""
    streak: list[Mapping[str, Any]] = []
    for record in reversed(records):
        if not all(_is_number(record.get(name)) for name in names) or not is_wrong(record):
            break
        streak.append(record)
    return streak[::-1] if len(streak) >= _RECORDS else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
