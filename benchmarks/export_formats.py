r"""Compares exported models with the model in this process and with Hugging Face on PyTorch.

    python -m benchmarks.export_formats --torch_python /path/to/env/bin/python

The model is that of `benchmarks.inference`, whose flags, rules and variants this program
shares: ELECTRA with random weights that classifies sequences of full length. Beside the
variants there it measures SavedModels that take ids, in float32 and bfloat16, one that
takes raw text, the two files of LiteRT and of ONNX, each loaded as a client would load
it. It reports the size of each format, milliseconds a batch and sequences a second, and how
far the probabilities are from those of the model in this process. It needs `ai-edge-litert`,
`tf2onnx` and `onnxruntime` (`pip install -e '.[dev]'`).
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from benchmarks import inference, inference_turns
from benchmarks.exported_models import IDS, LITERT, LOADERS, ONNX
from benchmarks.side_by_side import NUM_CORES, describe_machine, our_command, spread
from electra_tf.util.console import markdown_table
from electra_tf.util.files import write_atomically
from flags.command_line import program

VOCABULARY = pathlib.Path(__file__).parents[1] / "recipes/vocab/bert_uncased_vocab.txt"
TEXT = "saved_model_text"
# Name of a variant: how it is run, and its files in the folder of exports.
VARIANTS = {
    "SavedModel, float32": (IDS, "float32"),
    "SavedModel, mixed_bfloat16": (IDS, "mixed_bfloat16"),
    "SavedModel from raw text, float32": (TEXT, "float32"),
    "LiteRT, float32": (LITERT, "litert/model_float32.tflite"),
    "LiteRT, int8 weights": (LITERT, "litert/model_int8.tflite"),
    "ONNX Runtime, float32": (ONNX, "onnx/model.onnx"),
    "ONNX Runtime, int8 weights": (ONNX, "onnx/model_int8.onnx"),
}
REFERENCE = inference_turns.REFERENCE


def main() -> None:
    """Prints the tables."""
    torch_python = flags.FLAGS.torch_python
    shapes = inference.shapes_from_flags()
    machine = describe_machine(torch_python)
    print(machine, flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        commands = inference.create_commands(folder, shapes, torch_python)
        config = inference.create_config("float32", max(length for _, length in shapes))
        print("Exporting …", file=sys.stderr)
        settings = {
            "folder": folder,
            "config": dataclasses.asdict(config),
            "precisions": inference.precisions(),
        }
        subprocess.run(our_command("export_formats", json.dumps(settings)), check=True)
        exports = {
            name: export
            for name, export in VARIANTS.items()
            if flags.FLAGS.bfloat16 or export[1] != inference_turns.POLICIES["bfloat16"]
        }
        for name, (kind, path) in exports.items():
            settings = {
                "kind": kind,
                "path": os.path.join(folder, path),
                "inputs": os.path.join(folder, "inputs.npz"),
                "scores": inference.logits_file(folder, name),
                "num_threads": NUM_CORES,
            }
            commands[name] = our_command("export_formats", json.dumps(settings))
        children = []
        for name, command in commands.items():
            print(f"Warming up: {name} …", file=sys.stderr)
            children.append(inference_turns.InferenceChild(name, command))
            stack.callback(children[-1].stop)
            children[-1].read()
        cells = {
            shape: inference_turns.Cell(shape, inference.measure(children, *shape))
            for shape in shapes
        }
        scores = {
            name: _scores(dict(np.load(inference.logits_file(folder, name))), name)
            for name in commands
            if VARIANTS.get(name, ("",))[0] != TEXT
        }
        sizes = {name: _size(pathlib.Path(folder, path)) for name, (_, path) in exports.items()}
    agreement = {name: _agreement(found, scores[REFERENCE]) for name, found in scores.items()}
    print_report(cells, sizes, agreement)
    if flags.FLAGS.json:
        content = {
            "machine": machine,
            "megabytes": sizes,
            "agreement": agreement,
            "cells": [cell.to_dict() for cell in cells.values()],
        }
        write_atomically(flags.FLAGS.json, json.dumps(content, indent=2) + "\n")
        print(f"\nJSON: {flags.FLAGS.json}")


def serve(settings_json: str) -> None:
    """Is one of our children: writes the exports, or runs one as `inference.serve` does."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    settings = json.loads(settings_json)
    if "folder" in settings:
        policies = [inference_turns.POLICIES[p] for p in settings["precisions"]]
        write_exports(pathlib.Path(settings["folder"]), settings["config"], policies)
        return
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(settings["num_threads"])
    path, num_threads = settings["path"], settings["num_threads"]
    if settings["kind"] == TEXT:
        run = _load_text(path)
    else:
        predict = LOADERS[settings["kind"]](path, num_threads)

        def run(ids: np.ndarray) -> np.ndarray:
            return predict(ids, np.ones_like(ids), np.zeros_like(ids))

    inputs = {ids.shape: ids for ids in np.load(settings["inputs"]).values()}
    scores = {}
    for (batch_size, length), ids in inputs.items():
        for _ in range(2):
            scores[f"{batch_size}x{length}"] = run(ids)
    np.savez(settings["scores"], **scores)
    print(json.dumps({}), flush=True)
    inference_turns.answer_turns(lambda batch_size, length: run(inputs[batch_size, length]))


def write_exports(
    folder: pathlib.Path,
    settings: Mapping[str, Any],
    policies: Iterable[str],
    *,
    others: bool = True,
) -> tuple[Any, Any]:
    """Exports the model; its weights are those of `inference.serve`.

    Args:
        folder: gets a SavedModel in the folder of each policy.
        settings: the configuration of the model.
        policies: Keras's dtype policies.
        others: also write "litert" and "onnx", in float32.

    Returns:
        The last model, and its task.
    """
    import keras

    from electra_tf.inference.export.litert import write_litert
    from electra_tf.inference.export.onnx import write_onnx
    from electra_tf.inference.export.saved_model import write_saved_model
    from electra_tf.text.cached_tokenizer import CachedTokenizer
    from electra_tf.text.vocabulary import load_vocabulary
    from finetune.config.finetuning import FinetuningConfig
    from finetune.model import FinetuningModel
    from finetune.tasks.registry import restore_tasks
    from finetune.tasks.text.classification import ClassificationServable

    config = FinetuningConfig(**settings)
    tokenizer = CachedTokenizer(load_vocabulary(VOCABULARY))
    description = {"kind": "classification", "has_pairs": False, "labels": ["0", "1"]}
    for precision in policies:
        (task,) = restore_tasks(config, tokenizer, {config.task_names[0]: description})
        keras.utils.set_random_seed(config.seed)
        model = FinetuningModel(config.encoder, [task], precision)
        servable = ClassificationServable(model, task, config.max_seq_length)
        write_saved_model(servable, folder / precision, "benchmark")
        if others and precision == "float32":
            for name, write in ((LITERT, write_litert), (ONNX, write_onnx)):
                (folder / name).mkdir()
                write(servable, folder / name, "benchmark")
    return model, task


def _load_text(path: str) -> Callable[[np.ndarray], np.ndarray]:
    """Asks for texts of as many tokens as the ids have."""
    import tensorflow as tf

    model = tf.saved_model.load(path)
    signature = model.signatures["serving_default"]
    lines = VOCABULARY.read_text(encoding="utf-8").splitlines()
    words = np.array([line for line in lines if line.isascii() and line.isalpha()])

    def run(ids: np.ndarray) -> np.ndarray:
        chosen = words[ids[:, 1:-1] % len(words)]
        outputs = signature(text=tf.constant([" ".join(row) for row in chosen]))
        return {name: value.numpy() for name, value in outputs.items()}["scores"]

    run.model = model
    return run


def _scores(outputs: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Returns probabilities [sequences, classes]; the variants of others give logits."""
    rows = np.concatenate([outputs[shape] for shape in sorted(outputs)]).astype(np.float64)
    if name in VARIANTS:
        return rows
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _agreement(scores: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    same = scores.argmax(axis=1) == reference.argmax(axis=1)
    return {
        "max_probability_difference": float(np.max(np.abs(scores - reference))),
        "same_class": float(np.mean(same)),
    }


def _size(path: pathlib.Path) -> float:
    """Returns the megabytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def print_report(
    cells: Mapping[tuple[int, int], inference_turns.Cell],
    sizes: Mapping[str, float],
    agreement: Mapping[str, Mapping[str, float]],
) -> None:
    """Prints rates, latencies, and size and agreement of each variant."""
    names = list(next(iter(cells.values())).to_dict()["variants"])
    header = ["", *(f"{b} x {n}" for b, n in cells)]
    print("\nSequences a second: median (lowest – highest), by batch x tokens\n")
    rows = [[name, *(spread(cell.rates(name), 1) for cell in cells.values())] for name in names]
    print(markdown_table(header, rows, text_columns=1))
    print("\nMilliseconds a batch: median\n")
    rows = [[name, *(_milliseconds(cell, name) for cell in cells.values())] for name in names]
    print(markdown_table(header, rows, text_columns=1))
    print(f"\nSize, and probabilities against those of {REFERENCE}\n")
    rows = [
        [
            name,
            f"{sizes[name]:.1f}" if name in sizes else "–",
            *_agreement_cells(agreement.get(name)),
        ]
        for name in names
    ]
    header = ["", "MB", "largest difference", "same class"]
    print(markdown_table(header, rows, text_columns=1))
    inference_turns.warn_if_busy(cells)


def _milliseconds(cell: inference_turns.Cell, name: str) -> str:
    return f"{statistics.median(cell.to_dict()['variants'][name]['milliseconds']):.1f}"


def _agreement_cells(found: Mapping[str, float] | None) -> Sequence[str]:
    if found is None:
        return ("–", "–")
    return (f"{found['max_probability_difference']:.1e}", f"{found['same_class']:.1%}")


if __name__ == "__main__":
    program.run(main)
