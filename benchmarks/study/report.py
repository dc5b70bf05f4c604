"""The report: tables in the shape of the paper's, and which of its orderings hold here."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.study.figures import FIGURES
from benchmarks.study.models import Model, Start, random_start
from benchmarks.study.pages import Section, Table
from benchmarks.study.scores import REPRODUCED, Score, compare, pretraining_noise
from benchmarks.study.variants import (
    BERT,
    COMMON,
    EFFICIENCY,
    ELECTRA,
    ELECTRA_AGAIN,
    GENERATOR_SIZE,
    HIDDEN_SIZE,
    MODEL_SIZE,
    SHARING,
    TRAINING,
)
from electra_tf.flops.published import INFERENCE_LENGTH

# A masked-LM accuracy that is higher by less than this share counts as no higher.
TOLERANCE = 0.1
# Better, worse, where the paper says so, and by how many points of GLUE.
PAPER = (
    (ELECTRA, "All-Tokens MLM", "Table 5", "85.0 and 84.3"),
    ("All-Tokens MLM", "Replace MLM", "Table 5", "84.3 and 82.4"),
    (ELECTRA, "ELECTRA 15 %", "Table 5", "85.0 and 82.4"),
    (ELECTRA, BERT, "Table 5", "85.0 and 82.2"),
    ("Replace MLM", BERT, "Table 5", "82.4 and 82.2"),
    (ELECTRA, "share nothing", "section 3.2", "84.3 (tokens) and 83.6"),
    ("share all", "share tokens", "section 3.2", "84.4 and 84.3"),
    (ELECTRA, "generator 1", "Figure 3, left", "a quarter to a half is best"),
    (ELECTRA, "two-stage", "Figure 3, right", "joint is best"),
    ("two-stage", "adversarial", "Figure 3, right", "in this order"),
    ("adversarial", BERT, "Figure 3, right", "in this order"),
    (f"{ELECTRA} 64", f"{BERT} 64", "Figure 4", "at every size"),
)


def create_sections(
    models: Sequence[Model],
    by_task: Mapping[str, Mapping[Start, Score]],
    averages: Mapping[Start, Score],
    facts: Mapping[str, Any],
) -> list[Section]:
    """Returns the report's sections.

    Args:
        models: pre-trained.
        by_task: score of each task by start: name of the model, and share of its FLOPs.
        averages: over the tasks.
        facts: `machine`, `command`, `seeds`, `scale`, `num_train_examples`, and
            `most_frequent_share`, that of the most frequent word in the held-out text.
    """
    tasks = list(by_task)
    noise = _noise(averages)
    unlearnt, harmed = _unlearnt(models, facts), _harmed(models, averages, noise)
    sections = [
        Section(
            "ELECTRA's comparisons on two cores",
            [
                f"Made by `{facts['command']}` on {facts['machine']}. All models of one size "
                "had the same training FLOPs (in the paper's counting), at scale "
                f"{facts['scale']:g} {models[0].flops:.2e}: an encoder of 3 layers and "
                f"{models[0].hidden_size} units where no other size is named, on sequences of "
                f"{COMMON['max_seq_length']} tokens. Fine-tuned on the first "
                f"{facts['num_train_examples']:,} examples of each training set; scores are "
                f"means over {facts['seeds']} seeds, on the whole dev sets of "
                f"{', '.join(tasks)}, ± one standard error of the mean. The "
                "errors of scores are those of fine-tuning alone: each model was pre-trained "
                "once.",
                *_noise_found(averages),
                "The paper's models are a thousand times as large and saw a thousand times as "
                "much text. What holds there need not show here; what is within two standard "
                "errors is called noise.",
                _summary(averages, {*unlearnt, *harmed}, noise),
                *_caveats(unlearnt, harmed, facts),
            ],
        )
    ]
    order = [name for model in models if (name := model.name)]
    for question in (EFFICIENCY, TRAINING, GENERATOR_SIZE, SHARING):
        chosen = [model for model in models if question in model.questions]
        rows = [_row(model, tasks, by_task, averages) for model in chosen]
        random = random_start(HIDDEN_SIZE)
        if random in averages:
            cells = [str(by_task[task][random]) for task in tasks]
            rows.append([random[0], "0", "0", *cells, str(averages[random])])
        header = ["model", "updates", "FLOPs", *tasks, "average"]
        sections.append(Section(f"By {question}", table=Table(header, rows)))
        sections += _pictures(question)
    sections.append(_sizes(models, tasks, by_task, averages))
    sections += _pictures(MODEL_SIZE)
    sections.append(
        Section(
            "The paper's orderings",
            [
                "Better and worse are as in the paper; the last column says what was found "
                "here, its error with pre-training's own noise."
            ],
            Table(
                ["better", "worse", "paper", "there", "here", "difference"],
                [
                    row
                    for claim in PAPER
                    if (row := _claim(claim, averages, order, {*unlearnt, *harmed}, noise))
                ],
            ),
        )
    )
    sections.append(
        Section(
            "Pre-training",
            ["Held-out text at the end of each run."],
            Table(
                ["model", "seed", "parameters", "MLM accuracy", "discriminator AUC"],
                [
                    [
                        model.name,
                        str(model.seed),
                        f"{model.parameters:,}",
                        _number(model.pretraining, "masked_lm_accuracy"),
                        _number(model.pretraining, "disc_auc"),
                    ]
                    for model in models
                ],
            ),
        )
    )
    return sections


def _pictures(question: str) -> list[Section]:
    return [
        Section(text, picture=f"{name}.png")
        for name, (of_question, text) in FIGURES.items()
        if of_question == question
    ]


def _noise(averages: Mapping[Start, Score]) -> float:
    """Returns the standard error of a difference that is pre-training's; 0 if not known."""
    first, second = averages.get((ELECTRA, 1.0)), averages.get((ELECTRA_AGAIN, 1.0))
    return pretraining_noise(first, second) if first and second else 0.0


def _noise_found(averages: Mapping[Start, Score]) -> list[str]:
    """Returns a paragraph on what another seed of pre-training changes."""
    first, second = averages.get((ELECTRA, 1.0)), averages.get((ELECTRA_AGAIN, 1.0))
    if not first or not second:
        return []
    return [
        f"{ELECTRA} alone was pre-trained again with another seed: {first} and {second} on "
        f"average. For that, the difference of any two models has a standard error of "
        f"{_noise(averages):.2f} beside those of fine-tuning, which the verdicts below count. "
        "One pair of runs says no more than its order of magnitude."
    ]


def _summary(averages: Mapping[Start, Score], failed: Collection[str], noise: float) -> str:
    """Returns in a sentence which of the paper's orderings are found here."""
    found: dict[str, list[str]] = {}
    for better, worse, *_ in PAPER:
        first, second = averages.get((better, 1.0)), averages.get((worse, 1.0))
        if first and second:
            verdict = compare(first, second, noise)
            if {better, worse} & set(failed):
                verdict = "not to be told, since a run failed"
            found.setdefault(verdict, []).append(f"{better} over {worse}")
    parts = [f"{verdict}: {', '.join(pairs)}" for verdict, pairs in sorted(found.items())]
    return f"The paper's orderings: {'; '.join(parts) or 'none was looked at'}."


def _unlearnt(models: Sequence[Model], facts: Mapping[str, Any]) -> list[str]:
    """Returns the models whose masked-LM accuracy is that of always guessing one word."""
    highest = facts["most_frequent_share"] * (1 + TOLERANCE)
    name = "masked_lm_accuracy"
    return [m.name for m in models if m.pretraining.get(name, 1.0) <= highest]


def _harmed(
    models: Sequence[Model], averages: Mapping[Start, Score], noise: float
) -> list[str]:
    """Returns the models that pre-training left clearly worse than it found them."""
    harmed = []
    for model in models:
        random = averages.get(random_start(model.hidden_size))
        score = averages.get((model.name, 1.0))
        # Of the two, one was pre-trained: half of the variance.
        if random and score and compare(random, score, noise / 2**0.5) == REPRODUCED:
            harmed.append(model.name)
    return harmed


def _caveats(
    unlearnt: Sequence[str], harmed: Sequence[str], facts: Mapping[str, Any]
) -> list[str]:
    paragraphs = []
    if unlearnt:
        paragraphs.append(
            f"In these runs the generator learnt nothing: {', '.join(unlearnt)}. It is right "
            f"at {facts['most_frequent_share']:.3f} of the masked positions at most, as is "
            "whoever always says the most frequent word."
        )
    if harmed:
        paragraphs.append(
            f"Clearly below random weights when fine-tuned: {', '.join(harmed)}. There "
            "pre-training with these settings did harm."
        )
    if paragraphs:
        paragraphs.append(
            "Both count as failed: what is found for them says that these settings do not "
            "train them, and little of what they would be worth."
        )
    return paragraphs


def _sizes(
    models: Sequence[Model],
    tasks: Sequence[str],
    by_task: Mapping[str, Mapping[Start, Score]],
    averages: Mapping[Start, Score],
) -> Section:
    chosen = [model for model in models if MODEL_SIZE in model.questions]
    reference = next((model for model in chosen if model.name == BERT), None)
    rows = []
    for model in chosen:
        for share in sorted({share for name, share in averages if name == model.name}):
            start = (model.name, share)
            cells = [_count(share * model.flops), _count(model.inference_flops)]
            if reference:
                cells[0] += f" ({reference.flops / (share * model.flops):.1f}x)"
                cells[1] += f" ({reference.inference_flops / model.inference_flops:.1f}x)"
            rows.append(
                [
                    model.name if share == 1 else f"{model.name}, {100 * share:g} % trained",
                    *cells,
                    f"{model.encoder_parameters:,}",
                    *(str(by_task[task].get(start, "–")) for task in tasks),
                    str(averages[start]),
                ]
            )
    for start in (random_start(size) for size in sorted({m.hidden_size for m in chosen})[::-1]):
        if start in averages:
            cells = [str(by_task[task][start]) for task in tasks]
            rows.append([start[0], "0", "", "", *cells, str(averages[start])])
    return Section(
        "By model size and FLOPs (the paper's Table 1)",
        [
            f"Models of 64 units had the FLOPs of {ELECTRA} of their size. In brackets, the "
            f"speed-up over {BERT}; inference is of one sequence of {INFERENCE_LENGTH} tokens."
        ],
        Table(
            ["model", "training FLOPs", "inference FLOPs", "parameters", *tasks, "average"],
            rows,
        ),
    )


def _count(value: float) -> str:
    return f"{value:.1e}"


def _row(
    model: Model,
    tasks: Sequence[str],
    by_task: Mapping[str, Mapping[Start, Score]],
    averages: Mapping[Start, Score],
) -> list[str]:
    start = (model.name, 1.0)
    cells = [str(by_task[task].get(start, "–")) for task in tasks]
    return [
        model.name,
        f"{model.steps:,}",
        f"{model.flops:.2e}",
        *cells,
        str(averages.get(start, "–")),
    ]


def _claim(
    claim: tuple[str, str, str, str],
    averages: Mapping[Start, Score],
    order: Sequence[str],
    failed: Collection[str],
    noise: float,
) -> list[str] | None:
    better, worse, where, there = claim
    if better not in order or worse not in order:
        return None
    first, second = averages.get((better, 1.0)), averages.get((worse, 1.0))
    if first is None or second is None:
        return None
    error = math.hypot(first.error, second.error, noise)
    difference = f"{first.mean - second.mean:+.2f} ± {error:.2f}"
    verdict = compare(first, second, noise)
    if doubtful := [name for name in (better, worse) if name in failed]:
        verdict += f" (but {' and '.join(doubtful)} failed)"
    return [better, worse, where, there, verdict, difference]


def _number(values: Mapping[str, float], name: str) -> str:
    return f"{values[name]:.3f}" if name in values else "–"
