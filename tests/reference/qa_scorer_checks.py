"""Compares the answers and metrics of question answering with the authors'."""

import functools
import json
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.data.features import DataReport
from finetune.tasks.base import SplitData
from finetune.tasks.qa.nbest import FinalText
from finetune.tasks.qa.squad_metrics import (
    exact_match,
    f1,
    normalize_answer,
    squad_v1_metrics,
    squad_v2_metrics,
)
from finetune.tasks.qa.task import SQUAD_V2, QATask
from tests.reference.compare_outputs import TOLERANCE
from tests.reference.qa_settings import answerable, make_config, make_tokenizer
from tests.reference.result import CheckResult, Comparison, guarded


def check_qa_scorers(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields the results of the official metrics, the final texts and the n-best runs."""
    yield from check_squad_evaluation(reference_dir, vocab_file)
    recorded = json.loads((reference_dir / "scorers_qa_nbest.json").read_text())
    for name, run in recorded["runs"].items():
        check = functools.partial(_check_nbest, name, run, recorded["squad"], vocab_file)
        yield from guarded(f"n-best {name}", check)


def check_squad_evaluation(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields the results of the official metrics and of the final texts."""
    recorded = json.loads((reference_dir / "scorers_squad_eval.json").read_text())
    yield from guarded("squad metrics", lambda: _check_squad_metrics(recorded))
    yield from guarded("final text", lambda: _check_final_text(recorded, vocab_file))


def _check_squad_metrics(recorded: dict) -> Iterator[CheckResult]:
    comparison = Comparison("squad metrics of each question")
    gold, predictions = {}, {}
    for entry in recorded["gold"]:
        name, answers, prediction = entry["id"], entry["answers"], entry["prediction"]
        gold[name], predictions[name] = answers, prediction
        same = normalize_answer(prediction) == entry["normalized"]
        comparison.true(f"{name} normalized", same, f"theirs is {entry['normalized']!r}")
        candidates = [a for a in answers if normalize_answer(a)] or [""]
        ours = {
            "exact_v2": max(exact_match(a, prediction) for a in candidates),
            "f1_v2": max(f1(a, prediction, empty_agree=True) for a in candidates),
        }
        if answers:
            ours["f1_v1"] = max(f1(a, prediction, empty_agree=False) for a in answers)
        for key, value in ours.items():
            comparison.close(f"{name} {key}", value, entry[key], TOLERANCE)
    yield comparison.result()

    comparison = Comparison("squad metrics of version 2")
    for run in recorded["v2"]:
        ours = squad_v2_metrics(gold, predictions, run["na_probs"], run["na_prob_thresh"])
        _compare_metrics(ours, run["result"], comparison)
    yield comparison.result()

    comparison = Comparison("squad metrics of version 1")
    answered = {name: answers for name, answers in gold.items() if answers}
    ours = squad_v1_metrics({**answered, "unanswered": ["z"]}, predictions)
    _compare_metrics(ours, recorded["v1"]["result"], comparison)
    yield comparison.result()


def _check_final_text(recorded: dict, vocab_file: pathlib.Path) -> Iterator[CheckResult]:
    comparison = Comparison("final text")
    vocabulary = load_vocabulary(vocab_file)
    of_case = {
        case: FinalText(CachedTokenizer(vocabulary, do_lower_case=case))
        for case in {entry["do_lower_case"] for entry in recorded["final_text"]}
    }
    for entry in recorded["final_text"]:
        final_text = of_case[entry["do_lower_case"]]
        ours = final_text(entry["pred_text"], entry["orig_text"].split(" "))
        label = f"{entry['pred_text']!r} in {entry['orig_text']!r}"
        comparison.true(label, ours == entry["final"], f"{ours!r}, not {entry['final']!r}")
    yield comparison.result()


def _check_nbest(
    title: str, run: dict, squad: dict, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    comparison = Comparison(f"n-best {title}")
    config = make_config(run["config"])
    (name,) = run["config"]["task_names"]
    v2 = name == SQUAD_V2
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "dev.json")
        pathlib.Path(path).write_text(json.dumps(squad if v2 else answerable(squad)))
        tokenizer = make_tokenizer(vocab_file, config)
        task = QATask(config, name, tokenizer, v2=v2, files={"dev": path})
        report = DataReport(name, "dev")
        examples = task.load("dev", report)
    rows = task.featurize(examples, is_training=False, report=report)
    outputs = [_outputs(run["results_in"][str(row[f"{name}_eid"])]) for row in rows]
    comparison.equal("windows", len(outputs), len(run["results_in"]))
    data = SplitData("dev", examples, rows)
    for example, decoded in zip(examples, task.decode(data, outputs), strict=True):
        label, theirs = example.qas_id, run["nbest"][example.qas_id]
        texts = [answer.text for answer in decoded.nbest]
        expected = [answer["text"] for answer in theirs]
        comparison.true(label, texts == expected, f"{texts}, not {expected}")
        best = run["predictions"][label]
        comparison.true(label, decoded.text == best, f"{decoded.text!r}, not {best!r}")
        if texts == expected:
            for field in ("probability", "start_logit", "end_logit"):
                values = [getattr(answer, field) for answer in decoded.nbest]
                recorded = [answer[field] for answer in theirs]
                comparison.close(f"{label} {field}", values, recorded, TOLERANCE)
        if v2:
            expected = run["null_odds"][label]
            comparison.close(f"{label} null odds", decoded.null_odds, expected, TOLERANCE)
    metrics = task.score(data, outputs).metrics
    comparison.close("loss", metrics.pop("loss"), run["loss"], TOLERANCE)
    _compare_metrics(metrics, run["metrics"], comparison)
    yield comparison.result()


def _outputs(recorded: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {
        key: np.asarray(value, np.int32 if key.endswith("_index") else np.float32)
        for key, value in recorded.items()
    }


def _compare_metrics(
    ours: Mapping[str, float], theirs: Mapping[str, float], comparison: Comparison
) -> None:
    comparison.true("metrics", set(ours) == set(theirs), f"{set(ours) ^ set(theirs)}")
    for name, expected in theirs.items():
        comparison.close(name, ours.get(name, np.nan), expected, TOLERANCE)
