"""Which runs the study consists of: the gate, the claim, the ablations and a follow-up."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.study.gate import TRIES
from benchmarks.study.models import (
    ABLATIONS,
    BERT,
    BERT_LOWEST_LOSS,
    ELECTRA,
    MODELS,
    QUARTER,
    RANDOM,
    Model,
    settings_of,
)
from benchmarks.study.sizes import TINY, Size
from electra_tf.util.errors import UserError

GATE, CLAIM, ABLATION, FOLLOW_UP = STAGES = ("gate", "claim", "ablations", "follow-up")
BUDGETS = (1.0, 2.0, 4.0)
CLAIM_SEEDS = (1, 2, 3, 4)
# Of BERT with another learning rate.
LOWEST_LOSS_BUDGETS = (1.0, 2.0)
# Of the models that differ from ELECTRA; ELECTRA's own are those of the claim. At the smallest
# budget, discriminators have just begun to learn, so it says little of what helps them.
ABLATION_BUDGET, ABLATION_SEEDS = 2.0, (1, 2, 3)
# A generator of a quarter of the width did better than that of the claim, so it is compared
# with BERT as well, at the budgets that it was not found at.
FOLLOW_UP_BUDGETS = tuple(budget for budget in BUDGETS if budget != ABLATION_BUDGET)
# Not STS and RTE, which no encoder of this size learned: all were at chance.
TASKS = ("sst", "cola", "chunk", "mrpc")
NUM_TRIALS = 3
# Hyperparameters of an encoder that is not pre-trained.
SHAPE = ("model_size", "model_hparam_overrides", "embedding_size", "vocab_size")


@dataclasses.dataclass(frozen=True)
class Run:
    """One pre-training run and what is fine-tuned from it.

    Attributes:
        model: its name.
        budget: of `settings_of`; 0 for random weights.
        seed: of the pre-training.
        name: of its files.
        settings: all hyperparameters of the pre-training; for random weights, the shape.
        is_evaluated: whether it is fine-tuned and probed; the gate looks at held-out text
            alone.
        note: what a try of the gate is about.
        starts_from: run whose weights it starts from; None for initial weights.
    """

    model: str
    budget: float
    seed: int
    name: str
    settings: Mapping[str, Any]
    is_evaluated: bool = True
    note: str = ""
    starts_from: "Run | None" = None

    def result_file(self, folder: pathlib.Path) -> pathlib.Path:
        """Returns the file of its result."""
        return folder / "runs" / f"{self.name}.json"


def plan(stage: str, size: Size) -> list[Run]:
    """Returns the runs of a stage, those first that say most if the study is stopped early."""
    if stage == GATE:
        return gate(size)
    if stage == CLAIM:
        return [
            *(_random(size, seed) for seed in CLAIM_SEEDS),
            *(
                _run(model, size, budget, seed)
                for budget in BUDGETS
                for seed in CLAIM_SEEDS
                for model in (ELECTRA, BERT)
            ),
            *(
                _run(BERT_LOWEST_LOSS, size, budget, seed)
                for budget in LOWEST_LOSS_BUDGETS
                for seed in CLAIM_SEEDS
                if alias(BERT_LOWEST_LOSS, size) is BERT_LOWEST_LOSS
            ),
        ]
    if stage == FOLLOW_UP:
        return [
            _run(QUARTER, size, budget, seed)
            for budget in FOLLOW_UP_BUDGETS
            for seed in CLAIM_SEEDS
            if alias(QUARTER, size) is QUARTER
        ]
    return [
        _run(model, size, ABLATION_BUDGET, seed)
        for seed in ABLATION_SEEDS
        for model in ABLATIONS
        if alias(model, size) is model
    ]


def gate(size: Size) -> list[Run]:
    """Returns the tries that settings were chosen by; there are some for one size alone."""
    if size.name != TINY.name:
        return []
    return [
        Run(
            model=attempt.model,
            budget=1.0,
            seed=attempt.settings["seed"],
            name=f"gate_{attempt.name}",
            settings=attempt.settings,
            is_evaluated=False,
            note=attempt.note,
        )
        for attempt in TRIES
    ]


def alias(model: Model, size: Size) -> Model:
    """Returns the first model with the same hyperparameters at this size, often itself."""

    def hyperparameters(m: Model) -> dict[str, Any]:
        rate = {"learning_rate": size.rates[m.name]} if m.name in size.rates else {}
        return {**size.settings, **m.settings, **rate, "continues": m.continues}

    return next(m for m in MODELS if hyperparameters(m) == hyperparameters(model))


def _run(model: Model, size: Size, budget: float, seed: int) -> Run:
    first = model.continues
    return Run(
        model=model.name,
        budget=budget,
        seed=seed,
        name=f"{model.slug}_b{budget:g}_s{seed}",
        settings=settings_of(model, size, budget, seed),
        starts_from=_run(first, size, budget / 2, seed) if first else None,
    )


def _random(size: Size, seed: int) -> Run:
    shape = {name: size.settings[name] for name in SHAPE if name in size.settings}
    return Run(RANDOM.name, 0.0, seed, f"{RANDOM.slug}_s{seed}", shape)


def choose(
    runs: Sequence[Run],
    models: Sequence[str] | None,
    seeds: Sequence[str] | None,
    budgets: Sequence[str] | None = None,
) -> list[Run]:
    """Returns the runs of these models, seeds and budgets, all for None.

    Raises:
        UserError: there is none of a model, seed or budget.
    """
    for flag, given, known in (
        ("models", models, dict.fromkeys(run.model for run in runs)),
        ("seeds", seeds, dict.fromkeys(str(run.seed) for run in runs)),
        ("budgets", budgets, dict.fromkeys(f"{run.budget:g}" for run in runs)),
    ):
        for value in given or ():
            if value not in known:
                raise UserError(f"--{flag}: {value!r} is none of {', '.join(known)}")
    return [
        run
        for run in runs
        if (models is None or run.model in models)
        and (seeds is None or str(run.seed) in seeds)
        and (budgets is None or f"{run.budget:g}" in budgets)
    ]
