r"""Measures how the cost of a pre-training step grows, and what a second process gives.

    python -m benchmarks.cost_growth
    python -m benchmarks.cost_growth --batch_sizes 1,2 --lengths 16,32 --layers 1,2 \
        --vocabularies 2000,4000 --length 16 --batch_size 1 --base_layers 1 --steps 1

One setting at a time departs from ELECTRA-small at `--batch_size`, `--length` and
`--base_layers`: the batch, the length, the layers of both models, the vocabulary. Every point
is a process of its own, so that its peak memory is its own; it compiles and warms up, and the
fastest of its turns counts, since noise only ever adds. The dashed line is what the model
FLOPs (`electra_tf/flops/counting.py`) would cost at the rate of the first point.

Then the program itself trains the same global batch in one process on all cores, in one on
half of them, and with `--strategy=multi_worker` in two on half each, which talk over loopback.
About 7 minutes on two idle cores; needs Linux. Writes `cost_growth.json` and one PNG for each
setting into `--output_dir`.
"""

import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable

from absl import flags

from benchmarks.cost_plots import plot_growth
from benchmarks.pretraining_step import StepChild, our_step_command
from benchmarks.random_run import SPECIAL
from benchmarks.side_by_side import NUM_CORES, describe_machine
from benchmarks.worker_processes import WorkerRun, measure_workers
from electra_tf.config.hyperparameters import PRECISIONS
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from flags.command_line import program

_BATCH_SIZES = flags.DEFINE_list("batch_sizes", "2,8,16,32", "Sequences a step.")
_LENGTHS = flags.DEFINE_list("lengths", "64,128,256,512", "Tokens a sequence.")
_LAYERS = flags.DEFINE_list("layers", "3,6,12,24", "Layers of both models.")
_VOCABULARIES = flags.DEFINE_list("vocabularies", "4096,30522,120000", "Entries.")
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 8, "Where others vary.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Where others vary.", lower_bound=8)
_BASE_LAYERS = flags.DEFINE_integer("base_layers", 12, "Where others vary.", lower_bound=1)
_PRECISION = flags.DEFINE_enum("precision", "float32", list(PRECISIONS), "Of all points.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Turns of each point.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 2, "Steps a turn.", lower_bound=1)
_PROCESSES = flags.DEFINE_boolean("processes", True, "Measure two processes as well.")
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", "benchmarks/results/cost_growth", "Folder of the numbers and the pictures."
)

WARM_UP_STEPS = 1
JSON_FILE = "cost_growth.json"
BATCH, LENGTH, LAYERS, VOCABULARY = "batch", "length", "layers", "vocabulary"


@dataclasses.dataclass(frozen=True)
class Point:
    """One configuration and what a step of it costs.

    Attributes:
        batch, length, layers, vocabulary: of the configuration.
        seconds: of one step, of each turn.
        peak_bytes: largest resident memory of the process.
        model_flops: of one step.
    """

    batch: int
    length: int
    layers: int
    vocabulary: int
    seconds: tuple[float, ...]
    peak_bytes: int
    model_flops: int

    @property
    def best_seconds(self) -> float:
        """Of one step, in the fastest turn."""
        return min(self.seconds)


def main() -> None:
    """Measures, prints the tables, and writes numbers and pictures."""
    sweeps = read_sweeps()
    configs = {values: create_config(*values) for s in sweeps.values() for values in s}
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    machine = describe_machine(None)
    print(f"{machine}, {_PRECISION.value}", flush=True)
    points = {}
    for i, (values, config) in enumerate(configs.items(), start=1):
        print(f"{i}/{len(configs)}: {config_name(values)} …", file=sys.stderr, flush=True)
        points[values] = measure(values, config)
    found = {name: [points[v] for v in sweep] for name, sweep in sweeps.items()}
    for name, sweep in found.items():
        print(f"\n{format_table(name, sweep)}", flush=True)
        plot_growth(
            output_dir / f"{name}.png",
            name,
            [getattr(point, name) for point in sweep],
            [point.best_seconds for point in sweep],
            [point.peak_bytes for point in sweep],
            [point.model_flops for point in sweep],
        )
    runs = measure_processes() if _PROCESSES.value else []
    if runs:
        print(f"\n{format_runs(runs)}")
    content = {
        "machine": machine,
        "precision": _PRECISION.value,
        "steps_per_turn": _STEPS.value,
        "sweeps": {
            name: [dataclasses.asdict(point) for point in sweep]
            for name, sweep in found.items()
        },
        "processes": [dataclasses.asdict(run) for run in runs],
    }
    write_atomically(output_dir / JSON_FILE, json.dumps(content, indent=2) + "\n")
    print(f"\nNumbers and pictures are in {output_dir}")


def read_sweeps() -> dict[str, list[tuple[int, int, int, int]]]:
    """Returns batch, length, layers and vocabulary of each point, by what varies.

    Raises:
        UserError: a list that is no list of whole numbers.
    """
    base = (_BATCH_SIZE.value, _LENGTH.value, _BASE_LAYERS.value, PretrainingConfig.vocab_size)
    flags_by_name = {
        BATCH: _BATCH_SIZES,
        LENGTH: _LENGTHS,
        LAYERS: _LAYERS,
        VOCABULARY: _VOCABULARIES,
    }
    sweeps = {}
    for i, (name, flag) in enumerate(flags_by_name.items()):
        least = {LENGTH: 8, VOCABULARY: SPECIAL["first_ordinary"] + 1}.get(name, 1)
        values = {_number(flag.name, text, least) for text in flag.value}
        sweeps[name] = [(*base[:i], value, *base[i + 1 :]) for value in sorted(values)]
    return sweeps


def _number(flag: str, text: str, least: int) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise UserError(f"--{flag}: {text!r} is no whole number of at least {least}")
    return int(text)


def create_config(batch: int, length: int, layers: int, vocabulary: int) -> PretrainingConfig:
    """Returns ELECTRA-small of another size, with as many position embeddings as tokens."""
    return PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        model_hparam_overrides={
            "num_hidden_layers": layers,
            "max_position_embeddings": max(512, length),
        },
        vocab_size=vocabulary,
        max_seq_length=length,
        train_batch_size=batch,
        precision=_PRECISION.value,
    )


def config_name(values: Iterable[int]) -> str:
    """Returns what the four numbers mean, in words."""
    batch, length, layers, vocabulary = values
    return f"{batch} x {length} tokens, {layers} layers, {vocabulary:,} words"


def measure(values: tuple[int, int, int, int], config: PretrainingConfig) -> Point:
    """Returns what a step of `config` costs in a process of its own."""
    child = StepChild(config_name(values), our_step_command(config))
    try:
        child.run(WARM_UP_STEPS)
        answers = [child.run(_STEPS.value) for _ in range(_ROUNDS.value)]
    finally:
        child.stop()
    seconds = tuple(answer.seconds / _STEPS.value for answer in answers)
    return Point(*values, seconds, answers[-1].max_rss * 1024, model_flops_per_step(config))


def measure_processes() -> list[WorkerRun]:
    """Returns the rates of the program in one and in two processes.

    On a single core there is nothing to divide.
    """
    cores = sorted(os.sched_getaffinity(0))
    if NUM_CORES < 2:
        print("Two processes are not measured: there is one core.", file=sys.stderr)
        return []
    halves = [cores[: len(cores) // 2], cores[len(cores) // 2 : len(cores) // 2 * 2]]
    config = create_config(
        2 * _BATCH_SIZE.value, _LENGTH.value, _BASE_LAYERS.value, PretrainingConfig.vocab_size
    )
    with tempfile.TemporaryDirectory() as folder:
        return [
            measure_workers(config, workers, pathlib.Path(folder), num_steps=_STEPS.value)
            for workers in ([cores], halves[:1], halves)
        ]


def format_table(name: str, sweep: list[Point]) -> str:
    """Returns one sweep as a Markdown table, each point relative to the first one."""
    first = sweep[0]
    rows = [
        [
            f"{getattr(point, name):,}",
            f"{point.best_seconds:.3f}",
            f"{point.best_seconds / first.best_seconds:.2f}",
            f"{point.model_flops / first.model_flops:.2f}",
            f"{point.model_flops / point.best_seconds / 1e9:.1f}",
            f"{point.peak_bytes / 1e6:,.0f}",
        ]
        for point in sweep
    ]
    header = [name, "s/step", "relative", "model FLOPs, relative", "model GFLOP/s"]
    return markdown_table([*header, "peak memory, MB"], rows, text_columns=0)


def format_runs(runs: list[WorkerRun]) -> str:
    """Returns the program's rates as a Markdown table, relative to the first run's."""
    rows = [
        [
            f"{run.num_workers} on {run.cores_each} cores each",
            f"{run.sequences_per_second:.2f}",
            f"{run.sequences_per_second / runs[0].sequences_per_second:.2f}",
        ]
        for run in runs
    ]
    return markdown_table(["processes", "sequences/s", "relative"], rows, text_columns=1)


if __name__ == "__main__":
    program.run(main)
