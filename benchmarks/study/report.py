"""The report's sections: what was found, of the results that there are."""

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.study.analysis import (
    CLAIMS,
    CLEAR,
    MARGIN,
    REPRODUCED,
    REVERSED,
    Ordering,
    Scores,
    count_verdicts,
    curve,
    orderings,
    unlearned,
)
from benchmarks.study.diagnosis import diagnose
from benchmarks.study.figures import TITLES
from benchmarks.study.gate import PASSING
from benchmarks.study.models import (
    BERT,
    BERT_LOWEST_LOSS,
    ELECTRA,
    MODELS,
    QUARTER,
    QUESTIONS,
    RANDOM,
)
from benchmarks.study.pages import Section, Table
from benchmarks.study.plan import (
    ABLATION,
    ABLATION_BUDGET,
    BUDGETS,
    CLAIM,
    FOLLOW_UP,
    NUM_TRIALS,
    Run,
)
from benchmarks.study.results import FINETUNING, KINDS, PROBE, Result
from benchmarks.study.sizes import Size
from benchmarks.study.statistics import crossing

Runs = Sequence[tuple[Run, Result]]
_NONE = "–"
_KIND_NAMES = {FINETUNING: "fine-tuned", PROBE: "linear probe of the frozen encoder"}


def create_sections(
    gate: Runs,
    planned: Mapping[str, int],
    done: Runs,
    scores: Scores,
    size: Size,
    drawn: Sequence[str],
) -> list[Section]:
    """Returns the report's sections.

    Args:
        gate: tries of the gate that have ended.
        planned: number of runs by stage.
        done: runs of claim and ablations that have results.
        scores: of them.
        size: of the study.
        drawn: names of the figures, of `figures.TITLES`.
    """
    found = {kind: orderings(scores, kind) for kind in KINDS}
    sections = [_introduction(planned, gate, done, found[FINETUNING], size)]
    sections += [_gate(gate), *_pictures("gate", drawn), _tasks(scores)]
    sections += [_claim(scores, done), *_pictures("claim", drawn), _crossings(scores)]
    sections += [diagnose(done, scores), *_pictures("learning", drawn)]
    for kind in KINDS:
        sections.append(_orderings(found[kind], kind))
        if kind == FINETUNING:
            sections += _pictures("orderings", drawn)
    return [*sections, _ablations(scores), _pretraining(done)]


def _introduction(
    planned: Mapping[str, int], gate: Runs, done: Runs, found: Sequence[Ordering], size: Size
) -> Section:
    verdicts, followed = (
        ", ".join(f"{verdict}: {count}" for verdict, count in count_verdicts(part).items())
        for part in (
            [each for each in found if each.claim.stage != FOLLOW_UP],
            [each for each in found if each.claim.stage == FOLLOW_UP],
        )
    )
    shape = size.settings.get("model_hparam_overrides", {})
    encoder = (
        f"{shape['num_hidden_layers']} layers of {shape['hidden_size']} units"
        if shape
        else "ELECTRA-small"
    )
    runs = ", ".join(f"{stage} {count}" for stage, count in planned.items())
    exceptions = [f"the generator of the follow-up, at a budget of {ABLATION_BUDGET:g}"]
    if BERT_LOWEST_LOSS.name in size.rates:
        exceptions.insert(0, f"the learning rate of {BERT.name}, in its favor")
    return Section(
        f"ELECTRA and its alternatives at equal compute, {size.name}",
        [
            f"Encoders of {encoder}, pre-trained on novels, {size.seq_length} tokens a row. "
            "Every model gets the same model FLOPs of matrix products; a budget of 1 is "
            f"{size.unit_steps:,} steps of ELECTRA. The unit of all statistics is the "
            f"pre-training seed: the {NUM_TRIALS} fine-tuning seeds of a run, and the tasks, "
            "are averaged first.",
            f"Runs with results: {len(gate)} of the gate and {len(done)} others, of planned "
            f"{runs}. The paper's orderings, fine-tuned: {verdicts}; in the follow-up, "
            f"{followed}. What has not been run is not known.",
            "Verdicts: Welch's t-test at 5 %, adjusted by Holm's method over the orderings of "
            f"each stage ({_counted(CLAIM)} of the claim, {_counted(ABLATION)} of the "
            f"ablations, {_counted(FOLLOW_UP)} of a follow-up, planned when ablations were "
            f"known); no difference is two one-sided tests (TOST) with a margin of "
            f"{MARGIN:g} point, "
            "adjusted likewise. Beside it, p is adjusted over the orderings of all stages. "
            "Intervals are 95 %, and not adjusted. Where test labels are known, scores are of "
            f"the test sets; no setting was chosen on them but {', and '.join(exceptions)}.",
        ],
    )


def _counted(stage: str) -> int:
    return sum(claim.stage == stage for claim in CLAIMS)


def _gate(results: Runs) -> Section:
    rows = [
        [
            run.name.removeprefix("gate_"),
            run.note,
            f"{run.settings['num_train_steps']:,}",
            f"{result.model_flops:.2e}",
            _metric(result, "disc_auc"),
            _metric(result, "disc_auc_within_token"),
            _metric(result, "masked_lm_accuracy"),
            _metric(result, "masked_lm_loss"),
            _seconds(result),
        ]
        for run, result in results
    ]
    header = ["try", "settings", "steps", "model FLOPs", "AUC", "within token"]
    header += ["MLM accuracy", "MLM loss", "seconds"]
    return Section(
        "Gate: settings with which detection is learned",
        [
            "On held-out novels. The AUC within a token id compares occurrences of a token, so "
            "word frequencies alone give 0.5. A setting passes at "
            f"{PASSING:g}. Seconds are wall time of training on a machine that other programs "
            "used as well."
        ],
        Table(header, rows, text_columns=2),
    )


def _tasks(scores: Scores) -> Section:
    rows = []
    for kind in KINDS:
        for task in scores.tasks:
            gain = scores.gain(kind, task)
            random = scores.of_task(kind, (RANDOM.name, 0.0), task)
            counts = "not known" if gain is None else _yes(task in scores.counting[kind])
            shown = f"{gain[0]:+.2f} ± {gain[1]:.2f}" if gain else _NONE
            rows.append([task, _KIND_NAMES[kind], _mean(random), shown, counts])
    header = ["task", "kind", "random weights", "gain ± standard error", "counts"]
    return Section(
        "Tasks that count",
        [
            f"A task counts if {ELECTRA.name} and {BERT.name}, pooled, beat random weights by "
            f"{CLEAR:g} standard errors."
        ],
        Table(header, rows, text_columns=2),
    )


def _claim(scores: Scores, done: Runs) -> Section:
    rows = []
    for budget in BUDGETS:
        for model in (ELECTRA.name, QUARTER.name, BERT.name, BERT_LOWEST_LOSS.name):
            of_model = [r for run, r in done if (run.model, run.budget) == (model, budget)]
            if model in (QUARTER.name, BERT_LOWEST_LOSS.name) and not of_model:
                continue
            seconds = [r.pretraining["seconds"] for r in of_model if r.pretraining]
            rows.append(
                [
                    f"{model}, {budget:g}",
                    str(len(of_model)),
                    f"{of_model[0].model_flops:.2e}" if of_model else _NONE,
                    f"{statistics.fmean(seconds):.0f}" if seconds else _NONE,
                    *(
                        _mean(scores.of_task(FINETUNING, (model, budget), t))
                        for t in scores.tasks
                    ),
                    *(_mean(scores.averages(kind, (model, budget))) for kind in KINDS),
                ]
            )
    header = ["model, budget", "seeds", "model FLOPs", "seconds", *scores.tasks]
    paragraphs = ["Means ± standard deviations over pre-training seeds."]
    if any(run.model == BERT_LOWEST_LOSS.name for run, _ in done):
        paragraphs.append(
            f"Of the learning rates of {BERT.name} that were tried, that with the lower loss "
            f"on held-out text has rows of its own. It fine-tunes worse, so {ELECTRA.name} is "
            "compared with the other one."
        )
    return Section(
        "Claim: ELECTRA against BERT",
        paragraphs,
        Table([*header, "average", "average, probes"], rows),
    )


def _crossings(scores: Scores) -> Section:
    paragraphs = []
    for kind in KINDS:
        curves = [curve(scores, kind, model.name) for model in (ELECTRA, BERT)]
        found = crossing(*curves)
        if found is None:
            text = "not known: it takes two budgets with two seeds of both models."
        elif math.isinf(found.budget):
            text = f"none: {ELECTRA.name} does not gain on {BERT.name} with compute"
            text += f" ({100 * found.never:.0f} % of the resamples)."
        else:
            text = (
                f"at a budget of {found.budget:.3g}, 95 % interval {found.low:.3g} to "
                f"{found.high:.3g}; none in {100 * found.never:.0f} % of the resamples."
            )
            text += " It is extrapolated." if found.extrapolated else ""
        paragraphs.append(f"{_KIND_NAMES[kind].capitalize()}: {text}")
    return Section(
        f"The compute from which {ELECTRA.name} is ahead",
        [
            "By a line through the differences against the logarithm of compute; the interval "
            "resamples the seeds of each point.",
            *paragraphs,
        ],
    )


def _orderings(found: Sequence[Ordering], kind: str) -> Section:
    rows = []
    for ordering in found:
        claim, test = ordering.claim, ordering.comparison
        cells = [_NONE] * 6
        if test:
            cells = [
                f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]",
                f"{test.effect:+.2f} [{test.effect_low:+.2f}, {test.effect_high:+.2f}]",
                f"{test.degrees:.1f}",
                f"{ordering.p:.3g}",
                f"{ordering.p_overall:.3g}",
                f"{ordering.p_equivalent:.3g}",
            ]
        pair = f"{claim.better} > {claim.worse}"
        counts = f"{ordering.counts[0]}, {ordering.counts[1]}"
        where = f"{claim.where}: {claim.there}"
        rows.append([pair, where, f"{claim.budget:g}", ordering.verdict, counts, *cells])
    header = ["ordering", "paper", "budget", "verdict", "n", "difference [95 %]"]
    header += ["Hedges' g [95 %]", "df", "p (Holm)", "p (Holm, all)", "p of TOST (Holm)"]
    paragraphs = ["Averages over the tasks that count. n is pre-training seeds of each model."]
    for verdict in (REPRODUCED, REVERSED):
        names = [
            f"{o.claim.better} > {o.claim.worse} (budget {o.claim.budget:g})"
            for o in found
            if o.verdict == verdict
        ]
        if names:
            paragraphs.append(f"{verdict.capitalize()}: {'; '.join(names)}.")
    return Section(
        f"The paper's orderings, {_KIND_NAMES[kind]}",
        paragraphs,
        Table(header, rows, text_columns=4),
    )


def _ablations(scores: Scores) -> Section:
    rows = []
    for question in ("", *QUESTIONS):
        for model in MODELS:
            if model.question != question:
                continue
            point = (model.name, ABLATION_BUDGET)
            counts = [len(scores.averages(kind, point)) for kind in KINDS]
            averages = [_mean(scores.averages(kind, point)) for kind in KINDS]
            of_tasks = [_mean(scores.of_task(FINETUNING, point, t)) for t in scores.tasks]
            rows.append([model.name, question or _NONE, str(max(counts)), *of_tasks, *averages])
    header = ["model", "question", "seeds", *scores.tasks, "average", "average, probes"]
    return Section(
        f"Ablations, budget {ABLATION_BUDGET:g}",
        ["Means ± standard deviations over pre-training seeds."],
        Table(header, rows, text_columns=2),
    )


def _pretraining(done: Runs) -> Section:
    trained = [(run, result) for run, result in done if result.pretraining]
    names = ("disc_auc", "disc_auc_within_token", "masked_lm_accuracy", "replaced_share")
    rows = [
        [
            run.name,
            f"{run.settings['num_train_steps']:,}",
            f"{result.model_flops:.2e}",
            f"{result.paper_flops:.2e}",
            _seconds(result),
            *(_metric(result, name) for name in names),
        ]
        for run, result in trained
    ]
    paragraphs = ["Held-out text at the end of each run."]
    if failed := unlearned(trained):
        paragraphs.append(
            f"The generator is no better than the most frequent token: {', '.join(failed)}. "
            "For adversarial training from scratch, benchmarks/RESULTS.md says why; other runs "
            "count as failures of this implementation until shown otherwise."
        )
    header = ["run", "steps", "model FLOPs", "FLOPs, paper's counting", "seconds"]
    header += ["AUC", "within token", "MLM accuracy", "replaced"]
    return Section("Pre-training", paragraphs, Table(header, rows))


def _pictures(name: str, drawn: Sequence[str]) -> list[Section]:
    return [Section(TITLES[name], picture=f"{name}.png")] if name in drawn else []


def _metric(result: Result, name: str) -> str:
    value = result.metric(name)
    return _NONE if value is None else f"{value:.3f}"


def _seconds(result: Result) -> str:
    return f"{result.pretraining['seconds']:,.0f}"


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}" if values else _NONE
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
