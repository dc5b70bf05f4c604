"""Compares classification and regression with what the authors' code produced."""

import dataclasses
import functools
import json
import pathlib
import tempfile
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.encoder import (
    MODEL_SIZES,
    EncoderConfig,
    default_embedding_size,
    encoder_config,
)
from electra_tf.interop.variable_names import NamedVariable, encoder_variables
from electra_tf.model.encoder import Encoder, EncoderOutput
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.learning_rate import layer_factors
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import CLASSIFICATION, QA, REGRESSION, TAGGING
from finetune.data.features import INPUT_IDS, INPUT_MASK, SEGMENT_IDS, DataReport, Row
from finetune.tasks.base import SplitData
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.examples import InputExample
from finetune.tasks.text.glue import GLUE_TASKS, GlueTask, make_glue_task
from finetune.tasks.text.metrics import classification_metrics, regression_metrics
from finetune.tasks.text.regression import RegressionTask
from finetune.tasks.text.tsv import TsvLayout
from tests.authors_weights import load_tf1_variables
from tests.reference.result import CheckResult, Comparison, guarded

TOLERANCE = 1e-5
MAX_SEQ_LENGTH = "max_seq_length"
GLUE_NAMES = (*CLASSIFICATION.built_in, *REGRESSION.built_in)
# Their name of a split where ours, which is that of the file, differs.
SPLITS = {("mnli", "dev"): "dev_matched"}


def check_classification(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Yields the results of features, scorers, heads and layer-wise learning rates.

    Args:
        reference_dir: a set of fine-tuning numbers; its README defines the files.
        vocab_file: the vocabulary that the features were made with.
    """
    yield from guarded(
        "classification features", lambda: check_features(reference_dir, vocab_file)
    )
    yield from guarded("classification scorers", lambda: check_scorers(reference_dir))
    yield from guarded("classification heads", lambda: check_heads(reference_dir))
    yield from guarded("layer-wise learning rates", lambda: check_layer_rates(reference_dir))


def read_features(reference_dir: pathlib.Path) -> list[dict]:
    """Returns the recorded features, one dictionary for each line."""
    lines = (reference_dir / "features.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


@functools.cache
def text_tokenizer(vocab_file: pathlib.Path, do_lower_case: bool = True) -> CachedTokenizer:
    """Returns the tokenizer of a vocabulary."""
    return CachedTokenizer(load_vocabulary(vocab_file), do_lower_case)


def make_config(data_dir: pathlib.Path | str, **given) -> FinetuningConfig:
    """Returns a configuration whose raw data lie in `data_dir`."""
    return FinetuningConfig.create(
        data_dir=str(data_dir), model_name="reference", raw_data_dir=str(data_dir), **given
    )


def padded(row: Row, length: int) -> dict[str, np.ndarray]:
    """Returns a row as the model gets it, at `length` tokens and with its input mask."""

    def pad(vector: np.ndarray) -> np.ndarray:
        return np.pad(vector, (0, length - len(vector)))

    values = {name: pad(value) if np.ndim(value) else value for name, value in row.items()}
    return {**values, INPUT_MASK: pad(np.ones(len(row[INPUT_IDS]), np.int32))}


def check_features(
    reference_dir: pathlib.Path, vocab_file: pathlib.Path
) -> Iterator[CheckResult]:
    """Compares examples and features of each file, from the raw lines on.

    Rows of other widths are read as the authors' code does, where ours refuses most of them.
    """
    files = json.loads((reference_dir / "features_raw_classification.json").read_text("utf-8"))
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for line in read_features(reference_dir):
        if line["task"] in GLUE_NAMES:
            key = (line["task"], line["split"], json.dumps(line["config"]))
            groups.setdefault(key, []).append(line)
    with tempfile.TemporaryDirectory() as directory:
        for name, lines in files.items():
            path = pathlib.Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            rows = _rows_by_position(name, lines)
            path.write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")
        for (task_name, split, given), lines in groups.items():
            config = make_config(directory, **json.loads(given))
            tokenizer = text_tokenizer(vocab_file, lines[0]["config"]["do_lower_case"])
            skipping = {task_name: _skipping_malformed(GLUE_TASKS[task_name])}
            with unittest.mock.patch.dict(GLUE_TASKS, skipping):
                task = make_glue_task(config, task_name, tokenizer)
            label = f"features {task_name} {split}"
            if not config.double_unordered:
                label += " in one order"
            compare = functools.partial(_compare_features, label, task, split, lines)
            yield from guarded(label, compare)


def _skipping_malformed(task: GlueTask) -> GlueTask:
    layouts = {
        split: dataclasses.replace(layout, skip_malformed=True)
        for split, layout in task.layouts.items()
    }
    return dataclasses.replace(task, layouts=layouts)


def _rows_by_position(name: str, lines: Sequence[str]) -> list[str]:
    """Returns the rows of "task/split.tsv", those of other widths as theirs reads them."""
    task_name, _, split = name.removesuffix(".tsv").partition("/")
    layout = GLUE_TASKS[task_name].layouts.get(split) if task_name in GLUE_TASKS else None
    if layout is None or not lines:
        return list(lines)
    width = layout.num_columns or lines[0].count("\t") + 1
    return [_row_by_position(line, layout, width) for line in lines]


def _row_by_position(line: str, layout: TsvLayout, width: int) -> str:
    cells = line.split("\t")
    read = [i for i in (layout.text_a, layout.text_b, layout.label) if i is not None]
    if len(cells) == width or not all(-len(cells) <= i < len(cells) for i in read):
        return line
    row = [""] * width
    for index in read:
        row[index] = cells[index]
    return "\t".join(row)


def _compare_features(
    label: str, task: ClassificationTask | RegressionTask, split: str, lines: Sequence[dict]
) -> Iterator[CheckResult]:
    comparison = Comparison(label)
    report = DataReport(task.name, split)
    examples = task.load(SPLITS.get((task.name, split), split), report)
    rows = task.featurize(examples, is_training=lines[0]["is_training"], report=report)
    comparison.true("examples", len(rows) == len(lines), f"{len(rows)}, expected {len(lines)}")
    for example, row, line in zip(examples, rows, lines, strict=False):
        where = f"eid {line['raw']['eid']}"
        comparison.true(f"{where} raw", _raw(example) == _expected_raw(line), str(example))
        features = padded(row, line["config"][MAX_SEQ_LENGTH])
        expected = {name: v for name, v in line["features"].items() if name != "task_id"}
        same_names = features.keys() == expected.keys()
        comparison.true(f"{where} names", same_names, f"{sorted(features)}")
        for name in features.keys() & expected.keys():
            if task.target_spec.dtype == "float32" and name == task.target_spec.name:
                comparison.close(f"{where} {name}", features[name], expected[name], 1e-7)
            else:
                comparison.equal(f"{where} {name}", features[name], expected[name])
    yield comparison.result()


def _raw(example: InputExample) -> tuple:
    return example.eid, example.text_a, example.text_b, example.label


def _expected_raw(line: dict) -> tuple:
    raw = line["raw"]
    label = float(raw["label"]) if line["task"] == "sts" else raw["label"]
    return raw["eid"], raw["text_a"], raw["text_b"], label


def check_scorers(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Compares the metrics of recorded predictions."""
    recorded = json.loads((reference_dir / "scorers_basic.json").read_text())
    for name in ("mcc", "accuracy"):
        comparison = Comparison(f"scorer {name}")
        for i, case in enumerate(recorded[name]):
            gold, predicted = case["label_ids"], case["predictions"]
            actual = classification_metrics(gold, predicted, max(gold + predicted) + 1, [name])
            _compare_metrics(comparison, f"case {i}", actual, case)
        yield comparison.result()
    comparison = Comparison("scorer regression")
    for i, case in enumerate(recorded["regression"]):
        targets = np.array(case["targets"], np.float32)
        predictions = np.array(case["predictions"], np.float32)
        _compare_metrics(
            comparison, f"case {i}", regression_metrics(targets, predictions), case
        )
    yield comparison.result()


def _compare_metrics(
    comparison: Comparison, label: str, actual: dict[str, float], case: dict
) -> None:
    actual = {**actual, "loss": float(np.mean(np.array(case["loss"], np.float32)))}
    comparison.true(label, actual.keys() == case["results"].keys(), f"{sorted(actual)}")
    for name, expected in case["results"].items():
        comparison.close(f"{label} {name}", actual[name], expected, TOLERANCE)


def recorded_encoder_config(given: Mapping[str, Any]) -> EncoderConfig:
    """Returns the shape of a recorded model, of what differs from the authors' defaults."""
    size = given.get("model_size", "small")
    overrides = given.get("model_hparam_overrides", {})
    width = given.get("embedding_size", default_embedding_size(size, overrides))
    return encoder_config(
        size,
        overrides,
        # With null, theirs is the hidden size.
        embedding_size=width or overrides.get("hidden_size", MODEL_SIZES[size][0]),
        vocab_size=given.get("vocab_size", EncoderConfig.vocab_size),
    )


class RecordedHeads:
    """A set's random weights for an encoder and heads, and the recorded outputs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.given = json.loads((self.folder / "config.json").read_text())
        self.arrays = dict(np.load(self.folder / "arrays.npz"))
        self.task_names: list[str] = self.given["config"]["task_names"]
        self.encoder_config = recorded_encoder_config(self.given["config"])
        self.encoder = Encoder(self.encoder_config, name="electra")
        self.load(encoder_variables(self.encoder))

    def load(self, variables: Sequence[NamedVariable]) -> None:
        """Reads variables from the checkpoint."""
        load_tf1_variables(self.folder / "model.ckpt", variables)

    @property
    def features(self) -> dict[str, tf.Tensor]:
        """What the authors' graph was fed."""
        return {
            name.removeprefix("in/"): tf.constant(array)
            for name, array in self.arrays.items()
            if name.startswith("in/")
        }

    @functools.cached_property
    def encoded(self) -> EncoderOutput:
        """The encoder's output for `features`."""
        features = self.features
        return self.encoder(*(features[n] for n in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)))

    def output(self, task_name: str, name: str) -> np.ndarray:
        """Returns a recorded output of inference."""
        return self.arrays[f"out/{task_name}/{name}"]


def recorded_heads(reference_dir: pathlib.Path) -> Iterator[RecordedHeads]:
    """Yields every recorded model of a set."""
    for path in sorted((reference_dir / "heads").glob("*/config.json")):
        yield RecordedHeads(path.parent)


def check_heads(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results of every recorded model of texts, and of what it was fed."""
    for recorded in recorded_heads(reference_dir):
        yield from _check_text_heads(recorded)
        yield _check_whole(recorded)


def _check_text_heads(recorded: RecordedHeads) -> Iterator[CheckResult]:
    """Compares losses, logits and predictions of GLUE tasks, and what is made of them."""
    for task_name in (name for name in recorded.task_names if name in GLUE_NAMES):
        comparison = Comparison(f"head {recorded.folder.name} {task_name}")
        task = make_glue_task(make_config("unused"), task_name, tokenizer=None)
        with keras.name_scope("task_specific"):
            head = task.build_head(recorded.encoder_config, keras.DTypePolicy("float32"))
        variables = head.named_variables()
        recorded.load(variables)
        paths = [entry.variable.path for entry in variables]
        expected = [f"task_specific/{task_name}/dense/{name}" for name in ("kernel", "bias")]
        comparison.true("paths", paths == expected, f"{paths}, expected {expected}")
        output = head(recorded.encoded.sequence_output, recorded.features)
        comparison.close("loss", output.losses, recorded.output(task_name, "loss"), TOLERANCE)
        if task_name in CLASSIFICATION.built_in:
            logits = output.outputs["logits"]
            comparison.close("logits", logits, recorded.output(task_name, "logits"), TOLERANCE)
            comparison.equal(
                "predictions",
                output.outputs["predictions"],
                recorded.output(task_name, "predictions"),
            )
        else:
            comparison.close(
                "predictions",
                output.outputs["predictions"],
                recorded.output(task_name, "predictions"),
                TOLERANCE,
            )
        rows = [
            {task.target_spec.name: value}
            for value in recorded.arrays[f"in/{task.target_spec.name}"]
        ]
        outputs = [
            {"loss": output.losses[i].numpy()}
            | {name: value[i].numpy() for name, value in output.outputs.items()}
            for i in range(len(rows))
        ]
        scores = task.score(SplitData("dev", (), rows), outputs)
        mean = float(np.mean(recorded.output(task_name, "loss")))
        comparison.close("score's loss", scores.metrics["loss"], mean, TOLERANCE)
        yield comparison.result()


def _check_whole(recorded: RecordedHeads) -> CheckResult:
    """Compares the loss of a batch with those of its rows, and the inputs that are echoed.

    The other checks compare the losses of the rows, each with those of one head.
    """
    comparison = Comparison(f"heads {recorded.folder.name} together")
    arrays, names = recorded.arrays, recorded.task_names
    for name in names:
        is_known = name in (*GLUE_NAMES, *TAGGING.built_in, *QA.built_in)
        comparison.true(name, is_known, "there is no such task")
    losses = [
        arrays.get(f"out/{names[task_id]}/loss", np.full(row + 1, np.nan))[row]
        for row, task_id in enumerate(arrays["in/task_id"])
    ]
    comparison.close("loss", np.sum(losses), arrays["out/loss"], TOLERANCE)
    for name, array in arrays.items():
        # Such as in/cola_eid of out/cola/eid.
        given = "in/" + name.removeprefix("out/").replace("/", "_", 1)
        if name.startswith("out/") and given in arrays:
            comparison.equal(name, array, arrays[given])
    return comparison.result()


def check_layer_rates(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Compares the learning rate of each layer, the authors' exponents and ours.

    By default ours have one factor of the decay less in all but the heads.
    """
    for case in json.loads((reference_dir / "layer_lrs.json").read_text()):
        rate, decay, count = case["learning_rate"], case["layer_decay"], case["n_layers"]
        comparison = Comparison(f"layer-wise learning rates of {count} layers")
        paths = {_path_of(key): key for key in case["by_key"]}
        for authors in (True, False):
            factors = layer_factors(list(paths), decay, count, authors_exponents=authors)
            for path, key in paths.items():
                expected = case["by_key"][key]
                if not authors and key != "task_specific/":
                    expected /= decay
                comparison.close(
                    f"{key}{'' if authors else ' by default'}",
                    rate * factors[path],
                    expected,
                    1e-9,
                )
        yield comparison.result()


def _path_of(key: str) -> str:
    """Returns the path of one of our variables that a part of the authors' names is in."""
    if key == "task_specific/":
        return "task_specific/cola/dense/kernel"
    return "electra/" + key.removeprefix("encoder").strip("/") + "/kernel"
