r"""Compares inference on the CPU with Hugging Face's ELECTRA on PyTorch.

    python -m benchmarks.inference --torch_python /path/to/env/bin/python

`--torch_python` is the Python of an environment with torch and transformers; without it only
ours is measured. Both sides classify the same random sequences of full length with the same
random weights: the encoder and one affine map of the vector of [CLS]. Ours is the compiled
function that `run_finetuning.py` predicts with, without and with `--jit_compile`, which
computes the loss as well; theirs is
the model under `torch.inference_mode`, with the attention that transformers chooses by itself,
in eager mode and compiled by `torch.compile` for each shape (which takes minutes in the first
run, less when PyTorch finds its kernels in its cache). In bfloat16 theirs is run with
converted weights, eager and compiled, and under autocast. The fastest of each precision
counts, for each shape.

Every variant is a process of its own and uses all cores. All of them compile and warm up
first; then, shape by shape, they are asked by turns, one at a time, so that the noise of the
machine hits all alike. A ratio is the median of the ratios within each round. What others
took of the cores meanwhile is measured too and told where it matters: it hits PyTorch's
threads, which wait for each other, far harder than ours. Needs Linux.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from benchmarks.inference_turns import (
    OURS,
    POLICIES,
    RATIOS,
    REFERENCE,
    THEIRS,
    XLA,
    Cell,
    InferenceChild,
    Turn,
    answer_turns,
    ours,
    theirs,
    warn_if_busy,
)
from benchmarks.side_by_side import NUM_CORES, describe_machine, our_command, spread
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from flags.command_line import program

_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers; unset measures ours alone."
)
_BATCH_SIZES = flags.DEFINE_list("batch_sizes", "1,8,32", "Sequences of a batch.")
_LENGTHS = flags.DEFINE_list("lengths", "32,128,384", "Tokens of each sequence.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Turns of each variant.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 2.0, "Duration of a turn.", lower_bound=0.0)
_BFLOAT16 = flags.DEFINE_bool(
    "bfloat16",
    True,
    "Measure bfloat16, too. PyTorch takes minutes per batch on processors without it.",
)
_MODEL_SIZE = flags.DEFINE_enum("model_size", "small", list(MODEL_SIZES), "Of the encoder.")
_JSON = flags.DEFINE_string("json", None, "File that gets every measurement.")

SEED = 1
# Ids of the published BERT vocabulary, whose words begin about 1000.
CLS, SEP, FIRST_ORDINARY = 101, 102, 1000
VOCAB_SIZE = 30522
# Any built-in task of two labels; no text of it is read.
TASK = "sst"


def main() -> None:
    """Prints the tables."""
    torch_python = _TORCH_PYTHON.value
    shapes = shapes_from_flags()
    machine = describe_machine(torch_python)
    print(machine, flush=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        children: list[InferenceChild] = []
        about = {}
        for name, command in create_commands(folder, shapes, torch_python).items():
            print(f"Warming up: {name} …", file=sys.stderr)
            children.append(InferenceChild(name, command))
            stack.callback(children[-1].stop)
            about[name] = children[-1].read()
        turns = {shape: measure(children, *shape) for shape in shapes}
        logits = {
            child.name: dict(np.load(logits_file(folder, child.name))) for child in children
        }
    cells = {shape: Cell(shape, rounds) for shape, rounds in turns.items()}
    agreement = compare_logits(logits)
    print_report(cells, agreement, about)
    if _JSON.value:
        content = {
            "machine": machine,
            "model_size": _MODEL_SIZE.value,
            "rounds": _ROUNDS.value,
            "seconds": _SECONDS.value,
            "about": about,
            "cells": [cell.to_dict() for cell in cells.values()],
            "agreement": agreement,
        }
        write_atomically(_JSON.value, json.dumps(content, indent=2) + "\n")
        print(f"\nJSON: {_JSON.value}")


def shapes_from_flags() -> list[tuple[int, int]]:
    """Returns the batch sizes and lengths to measure; raises UserError for wrong ones."""
    return [(b, n) for b in _integers(_BATCH_SIZES) for n in _integers(_LENGTHS)]


def measure(
    children: Sequence[InferenceChild], batch_size: int, length: int
) -> list[dict[str, Turn]]:
    """Returns each child's turn in every round."""
    print(f"Measuring {batch_size} x {length} …", file=sys.stderr)
    for child in children:
        child.run(batch_size, length, 0.0)
    return [
        {child.name: child.run(batch_size, length, _SECONDS.value) for child in children}
        for _ in range(_ROUNDS.value)
    ]


def create_commands(
    folder: str, shapes: Sequence[tuple[int, int]], torch_python: str | None
) -> dict[str, list[str]]:
    """Writes the sequences, and returns the command line of every variant.

    The first one writes the weights that theirs read.
    """
    inputs, weights = os.path.join(folder, "inputs.npz"), os.path.join(folder, "weights.npz")
    np.savez(inputs, **{f"{b}x{n}": random_ids(b, n) for b, n in shapes})
    common = {"inputs": inputs, "weights": weights, "num_threads": NUM_CORES}
    commands = {}
    for precision in precisions():
        config = create_config(precision, max(length for _, length in shapes))
        for name in ours(precision):
            run = dataclasses.replace(config, do_train=False, jit_compile=name.endswith(XLA))
            settings = {
                **common,
                "logits": logits_file(folder, name),
                "config": dataclasses.asdict(run),
                "writes_weights": name == REFERENCE,
            }
            commands[name] = our_command("inference", json.dumps(settings))
        if not torch_python:
            continue
        shape = dataclasses.asdict(config.encoder)
        shape["layer_norm_eps"] = shape.pop("layer_norm_epsilon")
        for way, name in zip(THEIRS[precision], theirs(precision), strict=True):
            settings = {
                **common,
                "logits": logits_file(folder, name),
                "encoder": shape,
                "task": TASK,
                "way": way,
            }
            script = pathlib.Path(__file__).with_name("huggingface_inference.py")
            commands[name] = [torch_python, str(script), json.dumps(settings)]
    return commands


def precisions() -> list[str]:
    """Returns the precisions to measure; the first one is float32."""
    return list(OURS) if _BFLOAT16.value else ["float32"]


def create_config(precision: str, max_seq_length: int) -> FinetuningConfig:
    """Returns the configuration of ours; nothing is read from or written to disk."""
    return FinetuningConfig.create(
        model_name="benchmark",
        data_dir="unused",
        init_checkpoint=RANDOM_INIT,
        task_names=(TASK,),
        model_size=_MODEL_SIZE.value,
        vocab_size=VOCAB_SIZE,
        max_seq_length=max_seq_length,
        seed=SEED,
        precision=POLICIES[precision],
    )


def random_ids(batch_size: int, length: int) -> np.ndarray:
    """Returns full rows `[CLS] … [SEP]`, int32 [batch, length]."""
    generator = np.random.default_rng([SEED, batch_size, length])
    ids = generator.integers(FIRST_ORDINARY, VOCAB_SIZE, (batch_size, length), np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


def serve(settings_json: str) -> None:
    """Is one of our children; `huggingface_inference.py` speaks the same way.

    It runs every shape, writes the logits, says so with a line, and then answers each line
    [batch size, length, seconds] of standard input with a line of what it did.
    """
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    import keras
    import tensorflow as tf

    from electra_tf.model.kernels import CastKernels
    from electra_tf.training.distribution.cores import limit_operation_threads, parts_of
    from finetune.model import FinetuningModel
    from finetune.predictor import prediction_function
    from finetune.tasks.registry import build_tasks

    settings = json.loads(settings_json)
    config = FinetuningConfig(**settings["config"])
    if config.limits_operation_threads:
        limit_operation_threads()
    keras.utils.set_random_seed(config.seed)
    (task,) = build_tasks(config, tokenizer=None)
    model = FinetuningModel(config.encoder, [task], config.precision)
    if settings["writes_weights"]:
        np.savez(settings["weights"], **authors_variables(model, task.name))

    kernels = CastKernels(model.electra.linears)

    def compiled(num_parts: int) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
        predict = prediction_function(
            model, task.name, kernels, num_parts=num_parts, jit_compile=config.jit_compile
        )
        return tf.function(predict, autograph=False, reduce_retracing=True)

    def features_of(ids: np.ndarray) -> dict[str, tf.Tensor]:
        ids = tf.constant(ids)
        features = {
            "input_ids": ids,
            "input_mask": tf.ones_like(ids),
            "segment_ids": tf.zeros_like(ids),
        }
        return {**features, f"{task.name}_label_ids": tf.zeros_like(ids[:, 0])}

    features, functions, functions_of_shapes, logits = {}, {}, {}, {}
    for name, ids in np.load(settings["inputs"]).items():
        key = len(ids), parts_of(settings["num_threads"], ids.size)
        if key not in functions:
            # As in `finetune.predictor`. The first shape is a graph of its own, all lengths
            # after it share the one that is measured.
            functions[key] = compiled(key[1])
            functions[key](features_of(ids[:, :-1]))
        features[ids.shape], functions_of_shapes[ids.shape] = features_of(ids), functions[key]
        for _ in range(2):
            logits[name] = functions[key](features[ids.shape])["logits"].numpy()
    np.savez(settings["logits"], **logits)
    print(json.dumps({"parameters": model.count_params()}), flush=True)

    def forward(batch_size: int, length: int) -> None:
        shape = batch_size, length
        for value in functions_of_shapes[shape](features[shape]).values():
            value.numpy()

    answer_turns(forward)


def authors_variables(model: Any, task_name: str) -> dict[str, np.ndarray]:
    """Returns the weights under the names of the authors' checkpoints."""
    from electra_tf.interop.variable_names import encoder_variables

    mapping = encoder_variables(model.electra) + model.head(task_name).named_variables()
    return {
        name: value
        for entry in mapping
        for name, value in entry.split(entry.variable.numpy()).items()
    }


def compare_logits(logits: Mapping[str, Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """Compares the logits of every variant with those of ours in float32.

    A random model prefers one class for nearly all sequences, so that the same classes say
    little; how far apart the logits are, against how they differ from sequence to sequence
    ("std_of_margin"; the margin is the second logit less the first), says more.
    """
    reference = logits[REFERENCE]
    margins = {
        name: np.concatenate([values[key][:, 1] - values[key][:, 0] for key in reference])
        for name, values in logits.items()
    }
    margin = margins.pop(REFERENCE)
    return [
        {
            "variant": name,
            "sequences": len(margin),
            "max_logit_difference": max(
                float(np.abs(logits[name][key] - reference[key]).max()) for key in reference
            ),
            "rms_margin_difference": float(np.sqrt(np.mean((other - margin) ** 2))),
            "std_of_margin": float(margin.std()),
            "same_class": float(np.mean((other > 0) == (margin > 0))),
        }
        for name, other in margins.items()
    ]


def print_report(
    cells: Mapping[tuple[int, int], Cell],
    agreement: Sequence[Mapping[str, Any]],
    about: Mapping[str, Mapping[str, Any]],
) -> None:
    """Prints rates, ratios and agreement as Markdown."""
    for name, values in about.items():
        said = ", ".join(
            f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}"
            for key, value in values.items()
        )
        print(f"  {name}: {said}")
    print(
        f"\nELECTRA-{_MODEL_SIZE.value}, all tokens real; medians (ranges) of "
        f"{_ROUNDS.value} rounds of {_SECONDS.value:g} s\n\nSequences per second\n"
    )
    columns = [side(p) for side in (ours, theirs) for p in precisions()]
    columns = [names for names in columns if names[0] in about]
    header = ["batch x tokens", *(names[0] for names in columns)]
    rows = []
    for (batch_size, length), cell in cells.items():
        row = [f"{batch_size} x {length}"]
        for names in columns:
            name = cell.fastest(names)
            ways = ("autocast", "compiled", XLA.strip())
            way = next((way for way in ways if name.endswith(way)), "")
            row.append(f"{spread(cell.rates(name), 1)} {way}".rstrip())
        rows.append(row)
    print(markdown_table(header, rows, text_columns=1))
    if len(columns) > len(precisions()):
        print("\nSpeed of ours over Hugging Face's\n")
        measured = next(iter(cells.values()))
        ratios = {title: names for title, names in RATIOS.items() if measured.ratios(*names)}
        rows = [
            [f"{b} x {n}", *(spread(cell.ratios(*names), 2) for names in ratios.values())]
            for (b, n), cell in cells.items()
        ]
        print(markdown_table(["batch x tokens", *ratios], rows, text_columns=1))
    else:
        print("\nOnly ours: --torch_python was not given.")
    warn_if_busy(cells)
    if not agreement:
        return
    print(
        f"\nAgainst {REFERENCE}: the same weights, {agreement[0]['sequences']} "
        f"sequences, whose margins have a std of {agreement[0]['std_of_margin']:.4f}\n"
    )
    header = ["", "largest difference of a logit", "rms difference of margins", "same class"]
    rows = [
        [
            row["variant"],
            f"{row['max_logit_difference']:.1e}",
            f"{row['rms_margin_difference']:.1e}",
            f"{row['same_class']:.1%}",
        ]
        for row in agreement
    ]
    print(markdown_table(header, rows, text_columns=1))


def logits_file(folder: str, name: str) -> str:
    """Returns where a variant writes what it computed."""
    return os.path.join(folder, f"{name}.npz")


def _integers(flag: flags.FlagHolder) -> list[int]:
    try:
        values = [int(value) for value in flag.value]
    except ValueError:
        values = []
    lowest = 8 if flag.name == "lengths" else 1
    if not values or min(values) < lowest:
        raise UserError(
            f"--{flag.name} must be whole numbers from {lowest}, separated by commas, not "
            f"{','.join(flag.value)!r}"
        )
    return values


if __name__ == "__main__":
    program.run(main)
