r"""Compares one pre-training step on the CPU with Hugging Face's ELECTRA on PyTorch.

    python -m benchmarks.training_step --torch_python /path/to/env/bin/python

`--torch_python` is the Python of an environment with torch and transformers; it need not
have anything else. Without it only ours is measured. Both sides do the same step: dynamic
masking, generator, loss at the masked positions, sampling, discriminator, backward, clipping
by the global norm, update; with dropout and tied embeddings, on random full-length rows.
Ours is the compiled step of `run_pretraining.py` and adds up its metrics as well. PyTorch's
runs in eager mode and, unless `--notorch_compile` is given, compiled by `torch.compile`, which
takes some minutes once. The peer is the fastest of them, whatever its precision.

Every variant is a process of its own, so that its peak memory is its own. All of them
compile and warm up first; then they are asked by turns, one at a time, so that the noise of
the machine hits all alike. A ratio is the median of the ratios within each round. The column
`cores` is CPU time over time in the worst round: about 1 of 2 means that something else ran,
which hits PyTorch's threads far harder than ours: the run is worthless. Needs Linux.
"""

import contextlib
import statistics
import sys

from absl import flags

from benchmarks.pretraining_step import (
    Answer,
    StepChild,
    huggingface_step_command,
    our_step_command,
)
from benchmarks.side_by_side import describe_machine
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.pretraining import PretrainingConfig
from flags.command_line import program

_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers; unset measures ours alone."
)
_TORCH_COMPILE = flags.DEFINE_bool(
    "torch_compile", True, "Measure PyTorch's compiled step, too; compiling takes minutes."
)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Turns of each variant.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 4, "Steps a turn.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Sequences a step.", lower_bound=1)
_SEQ_LENGTH = flags.DEFINE_integer(
    "seq_length", 128, "Tokens a sequence.", lower_bound=8, upper_bound=512
)
_MODEL_SIZE = flags.DEFINE_enum(
    "model_size", "small", list(MODEL_SIZES), "Size of the discriminator."
)

WARM_UP_STEPS = 2
OURS_FLOAT32, OURS_BFLOAT16 = "ours, float32", "ours, mixed_bfloat16"
THEIRS_FLOAT32, THEIRS_BFLOAT16 = "Hugging Face, float32", "Hugging Face, bfloat16 autocast"
COMPILED_FLOAT32 = "Hugging Face, float32, compiled"
COMPILED_BFLOAT16 = "Hugging Face, bfloat16, compiled"
OURS = (OURS_FLOAT32, OURS_BFLOAT16)
# One after the other; the last ratio is that of the fastest of each side.
RATIOS = (
    (OURS_FLOAT32, THEIRS_FLOAT32),
    (OURS_FLOAT32, COMPILED_FLOAT32),
    (OURS_BFLOAT16, THEIRS_BFLOAT16),
    (OURS_BFLOAT16, COMPILED_BFLOAT16),
    (OURS_BFLOAT16, THEIRS_FLOAT32),
)


def main() -> None:
    """Prints the tables."""
    torch_python = _TORCH_PYTHON.value
    print(describe_machine(torch_python), flush=True)
    commands = create_commands(torch_python)
    with contextlib.ExitStack() as stack:
        children = []
        for name, command in commands.items():
            print(f"Warming up: {name} …", file=sys.stderr)
            children.append(StepChild(name, command))
            stack.callback(children[-1].stop)
            children[-1].run(WARM_UP_STEPS)
        rounds = [
            {child.name: child.run(_STEPS.value) for child in children}
            for _ in range(_ROUNDS.value)
        ]
    print_table(create_config("float32"), rounds)
    print_ratios(rounds)


def create_config(precision: str) -> PretrainingConfig:
    """Returns the configuration of both sides; nothing is read from or written to disk."""
    return PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        model_size=_MODEL_SIZE.value,
        max_seq_length=_SEQ_LENGTH.value,
        train_batch_size=_BATCH_SIZE.value,
        precision=precision,
    )


def create_commands(torch_python: str | None) -> dict[str, list[str]]:
    """Returns the command line of every variant, in the order of their turns."""
    commands = {}
    for ours, theirs, compiled, precision in (
        (OURS_FLOAT32, THEIRS_FLOAT32, COMPILED_FLOAT32, "float32"),
        (OURS_BFLOAT16, THEIRS_BFLOAT16, COMPILED_BFLOAT16, "mixed_bfloat16"),
    ):
        config = create_config(precision)
        commands[ours] = our_step_command(config)
        if torch_python:
            commands[theirs] = huggingface_step_command(torch_python, config)
        if torch_python and _TORCH_COMPILE.value:
            commands[compiled] = huggingface_step_command(
                torch_python, config, compile_mode="default"
            )
    return commands


def print_table(config: PretrainingConfig, rounds: list[dict[str, Answer]]) -> None:
    """Prints time, rate and memory of every variant."""
    print(
        f"\nELECTRA-{config.model_size}, {config.train_batch_size} x {config.max_seq_length}, "
        f"{config.max_predictions_per_seq} masked; {len(rounds)} rounds of {_STEPS.value} steps"
    )
    print(f"{'':<34}s/step   sequences/s (range)    cores   peak MB   parameters   loss")
    for name in rounds[0]:
        answers = [answers[name] for answers in rounds]
        seconds = [answer.seconds / _STEPS.value for answer in answers]
        rates = [config.train_batch_size / s for s in seconds]
        spread = f"({min(rates):.2f} - {max(rates):.2f})"
        cores = min(answer.cpu_seconds / answer.seconds for answer in answers)
        print(
            f"  {name:<31}{statistics.median(seconds):>7.3f}{statistics.median(rates):>8.2f} "
            f"{spread:<16}{cores:>7.2f}{answers[-1].max_rss * 1024 / 1e6:>10,.0f}"
            f"{answers[-1].parameters:>13,}{answers[-1].loss:>7.2f}"
        )


def print_ratios(rounds: list[dict[str, Answer]]) -> None:
    """Prints how many times as fast ours is."""
    if THEIRS_FLOAT32 not in rounds[0]:
        print("\nOnly ours: --torch_python was not given.")
        return
    print("\nSpeed of the first over the second, median (range) of the rounds")
    for ours, theirs in RATIOS:
        if theirs in rounds[0]:
            ratios = [answers[theirs].seconds / answers[ours].seconds for answers in rounds]
            print_ratio(f"{ours} / {theirs}", ratios)
    best = [
        min(a.seconds for name, a in answers.items() if name not in OURS)
        / min(answers[name].seconds for name in OURS)
        for answers in rounds
    ]
    print_ratio("our fastest / their fastest", best)


def print_ratio(name: str, ratios: list[float]) -> None:
    """Prints the median of the rounds and their range."""
    low, high = min(ratios), max(ratios)
    print(f"  {name:<58}{statistics.median(ratios):>6.2f}x ({low:.2f} - {high:.2f})")


if __name__ == "__main__":
    program.run(main)
