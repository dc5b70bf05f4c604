"""Watches a run for what makes it worthless although it converges, from its logged metrics.

No TensorFlow is imported here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.training.diagnoses import (
    Diagnosis,
    RunFacts,
    always_original,
    auc_at_chance,
    detection_by_frequency,
    exploding_gradient,
    few_replaced_tokens,
    large_updates,
    small_updates,
    unigram_generator,
    unknown_tokens,
)


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
        for diagnosis in (
            unknown_tokens,
            few_replaced_tokens,
            unigram_generator,
            always_original,
        )
    ]
    if found[-1] is None:
        found.append(auc_at_chance(training, facts))
    evaluations = [record for record in records if record.get("kind") == "eval"]
    found.append(detection_by_frequency(evaluations, facts))
    found += [
        each(training, facts) for each in (exploding_gradient, large_updates, small_updates)
    ]
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
