"""Watches the logged metrics of a run for failures that do not stop it.

No TensorFlow is imported here.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.choices import ADVERSARIAL, ELECTRIC, SHARE_ALL, WITHOUT_ENCODER
from electra_tf.config.pretraining import default_max_predictions
from electra_tf.config.saved_config import is_finetuned
from electra_tf.training.monitoring.diagnoses import (
    RECORDS,
    Diagnosis,
    RunFacts,
    always_original,
    auc_at_chance,
    detection_by_frequency,
    exploding_gradient,
    few_replaced_tokens,
    large_updates,
    low_auc,
    small_updates,
    unigram_generator,
    unknown_words,
)

# Number of records of each kind that a watch keeps.
_MAX_RECORDS = 1000


def facts_of(
    hyperparameters: Mapping[str, Any],
    *,
    unigram_accuracy: float | None = None,
    unknown_share: float | None = None,
    num_train_steps: int | None = None,
) -> RunFacts:
    """Returns the facts of a run, given its hyperparameters.

    Args:
        hyperparameters: fields of `PretrainingConfig` or `FinetuningConfig`, or the run's
            `config.json`.
        unigram_accuracy, unknown_share: see `RunFacts`; None if unknown.
        num_train_steps: number of steps of a fine-tuning run, which only configures epochs.
    """
    steps = num_train_steps or int(hyperparameters.get("num_train_steps") or 0)
    if is_finetuned(hyperparameters):
        share = hyperparameters.get("warmup_proportion") or 0.0
        return RunFacts(
            num_train_steps=steps,
            num_warmup_steps=int(share * steps),
            warmup_flag="--warmup_proportion",
            stop_flag="--eval_steps",
        )
    # If both are one encoder, the flags of the generator's size have no effect.
    shares_all = hyperparameters.get("embedding_sharing") == SHARE_ALL
    return RunFacts(
        num_train_steps=steps,
        num_warmup_steps=int(hyperparameters.get("num_warmup_steps") or 0),
        mask_prob=_lowest_masking_rate(hyperparameters),
        generator_learns=hyperparameters.get("generator_type") not in WITHOUT_ENCODER,
        is_adversarial=hyperparameters.get("objective") == ADVERSARIAL,
        has_energies=hyperparameters.get("objective") == ELECTRIC,
        gen_weight=hyperparameters.get("gen_weight", RunFacts.gen_weight),
        disc_weight=hyperparameters.get("disc_weight", RunFacts.disc_weight),
        unigram_accuracy=unigram_accuracy,
        unknown_share=unknown_share,
        generator_flag="--embedding_sharing" if shares_all else RunFacts.generator_flag,
    )


def _lowest_masking_rate(hyperparameters: Mapping[str, Any]) -> float | None:
    """Returns the lowest share of masked tokens, by the schedule and the limit on them."""
    rates = [hyperparameters.get(name) for name in ("mask_prob", "mask_prob_end")]
    rates = [rate for rate in rates if rate]
    limit = hyperparameters.get("max_predictions_per_seq")
    length = hyperparameters.get("max_seq_length")
    if rates and limit and length and limit < default_max_predictions(min(rates), length):
        rates.append(limit / length)
    return min(rates, default=None)


def diagnose(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> list[Diagnosis]:
    """Returns the diagnoses of a run, given the records of its log so far."""
    training = _after_warmup(records, facts)
    found = [
        diagnosis(training, facts)
        for diagnosis in (unknown_words, few_replaced_tokens, unigram_generator)
    ]
    detection = () if facts.has_energies else (always_original, auc_at_chance, low_auc)
    # Only the worst of these is reported.
    judged = (each(training, facts) for each in detection)
    found.append(next((each for each in judged if each is not None), None))
    evaluations = [record for record in records if record.get("kind") == "eval"]
    found.append(detection_by_frequency(evaluations, facts))
    found += [
        each(training, facts) for each in (exploding_gradient, large_updates, small_updates)
    ]
    return [each for each in found if each is not None]


def is_judged(records: Sequence[Mapping[str, Any]], facts: RunFacts) -> bool:
    """Returns whether there are enough records for a diagnosis of the training."""
    return len(_after_warmup(records, facts)) >= RECORDS


def _after_warmup(
    records: Sequence[Mapping[str, Any]], facts: RunFacts
) -> list[Mapping[str, Any]]:
    training = [record for record in records if record.get("kind") == "train"]
    return [record for record in training if record["step"] > facts.num_warmup_steps]


class HealthWatch:
    """Diagnoses a run while it trains, and reports each diagnosis once.

    In long runs, older records are thinned out, which bounds memory and time.

    Args:
        facts: what is known about the run.
        records: records of the log before the current start.
    """

    def __init__(self, facts: RunFacts, records: Sequence[Mapping[str, Any]] = ()) -> None:
        self._facts = facts
        self._by_kind: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            self._keep(record)
        # First steps of the current diagnoses, by name.
        self._since: dict[str, int] = {}

    def add(self, record: Mapping[str, Any]) -> list[str]:
        """Adds a log record; returns a line for each new diagnosis."""
        self._keep(record)
        found = self._diagnose()
        new = [each for each in found if each.name not in self._since]
        self._since = {each.name: each.since for each in found}
        return [f"Health: {each.line()}" for each in new]

    def summary(self) -> list[str]:
        """Returns a line for each diagnosis at the end."""
        return [f"Health:      {each.line()}" for each in self._diagnose()]

    def _keep(self, record: Mapping[str, Any]) -> None:
        kept = self._by_kind.setdefault(record.get("kind", ""), [])
        kept.append(dict(record))
        if len(kept) > _MAX_RECORDS:
            del kept[1 : len(kept) // 2 : 2]

    def _diagnose(self) -> list[Diagnosis]:
        found = diagnose([*itertools.chain(*self._by_kind.values())], self._facts)
        # The record of the first step may have been dropped.
        first = {each.name: self._since.get(each.name, each.since) for each in found}
        return [
            dataclasses.replace(each, since=min(each.since, first[each.name])) for each in found
        ]
