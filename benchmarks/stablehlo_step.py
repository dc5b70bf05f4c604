r"""Times the lowered pre-training step under jax, beside Hugging Face's under PyTorch.

    python -m benchmarks.stablehlo_step DIR --torch_python /path/to/env/bin/python

DIR is what `python -m benchmarks.gpu_training_step --lower DIR` has written on a machine with
TensorFlow. This program needs jax and numpy alone, with `--torch_python` a Python that has
torch and transformers as well (it may be the same); run it at the root of the repository.

XLA compiles the same step that `run_pretraining.py --jit_compile` runs, for the device that
jax has; weights, moments and batches stay there, and updated variables take the memory of the
old ones. The peer is `torch.compile`, with and without CUDA graphs, with bfloat16 autocast and
PyTorch's fused attention. Of each case the whole step is timed, and the forward pass alone
(with dropout, without gradients). Variants are processes of their own and take turns; all hold
their memory on the device. `--check` compares the losses of the first steps with those that
TensorFlow had on the CPU.

On a CPU, `--device cpu` tries it out.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.jax_program import JaxProgram
from benchmarks.lowered_case import FORWARD, STEP, LoweredCase, find_cases
from benchmarks.pretraining_step import (
    COMPILED_PEERS,
    Answer,
    StepChild,
    huggingface_step_command,
)
from benchmarks.side_by_side import our_command, torch_versions
from benchmarks.step_measurements import Measurement, Workload, format_table, summarize
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.gpu_peaks import peak_bfloat16_flops
from electra_tf.model.gpu.xla_flags import prefer_cublas
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically

OURS = "ours, StableHLO + XLA"
WARM_UP_STEPS = 3
PROFILED_STEPS = 5
# Largest relative difference of a loss from TensorFlow's on the CPU. Another device rounds
# otherwise, and a sampled token may change with it.
TOLERANCES = {"float32": 1e-4, "mixed_bfloat16": 1e-2, "mixed_float16": 1e-2}


@dataclasses.dataclass(frozen=True)
class Device:
    """The device that jax runs on, and the versions that ran."""

    name: str
    platform: str
    jax: str


@dataclasses.dataclass(frozen=True)
class Job:
    """A program of a case, to be timed."""

    case: LoweredCase
    folder: pathlib.Path
    part: str

    @property
    def label(self) -> str:
        """The name of the case, and the part."""
        return f"{self.case.name}, {self.part}"


class Attempts:
    """Calls functions, and collects their errors so that the other measurements go on."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def call(self, label: str, function: Callable, *arguments: Any) -> Any:
        """Returns what the function returns, or None after an error."""
        try:
            return function(*arguments)
        except UserError as error:
            self.failures.append(f"{label}: {error}")
            print(self.failures[-1], file=sys.stderr, flush=True)
            return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table.

    Raises:
        UserError: an argument is wrong, or something failed; the rest has been measured.
    """
    options = _parse(arguments)
    folders = _choose(options.cases, find_cases(options.directory))
    if options.torch_python:
        print(torch_versions(options.torch_python), flush=True)
    # jax would take three quarters of a GPU's memory at once, and leave the peer the rest.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    attempts = Attempts()
    jobs = [
        Job(LoweredCase.read(folder), folder, part)
        for folder in folders.values()
        for part in options.parts
    ]
    workloads: dict[str, Workload] = {}
    found: dict[str, list[Measurement]] = {}
    device = None
    for group in [jobs] if options.together else [[job] for job in jobs]:
        with contextlib.ExitStack() as stack:
            children = [stack.enter_context(_start(job, options)) for job in group]
            _warm_up(group, children, attempts)
            for job, of_job in zip(group, children, strict=True):
                device = _measure(job, of_job, options, attempts, found) or device
                rows = job.case.config["train_batch_size"]
                flops = job.case.programs[job.part].model_flops
                workloads[job.label] = Workload(rows, flops)
    if device is not None:
        _print_results(device, {label: workloads[label] for label in found}, found, options)
    if attempts.failures:
        raise UserError(f"{len(attempts.failures)} failed. " + "; ".join(attempts.failures))


def _print_results(
    device: Device,
    workloads: dict[str, Workload],
    found: dict[str, list[Measurement]],
    options: argparse.Namespace,
) -> None:
    peak = options.peak_tflops * 1e12 if options.peak_tflops else None
    peak = peak or peak_bfloat16_flops(device.name)
    print(f"{device.name} ({device.platform}), jax {device.jax}")
    if peak is None:
        print("The device's peak is not known: --peak_tflops gives utilization.")
    print("\n" + format_table(workloads, found, peak))
    if options.json:
        _write_json(options.json, device, workloads, found)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stablehlo_step",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("directory", type=pathlib.Path, help="Folder of the lowered cases.")
    add("--cases", help="Some of the cases, as size:batch:length,…; all by default.")
    add("--device", choices=["gpu", "cpu"], default="gpu", help="cpu is for trying it out.")
    add("--torch_python", help="Python that has torch and transformers.")
    add(
        "--torch_modes",
        type=_modes,
        default=list(COMPILED_PEERS.values()),
        help=f"Modes of torch.compile; {','.join(COMPILED_PEERS.values())} by default.",
    )
    add(
        "--parts",
        type=_parts,
        default=[FORWARD, STEP],
        help=f"Which programs to time; {FORWARD},{STEP} by default.",
    )
    add(
        "--together",
        action="store_true",
        help="Compile all programs before the first is timed, which takes less time in all. "
        "They must fit into the device's memory together.",
    )
    add(
        "--profile",
        type=pathlib.Path,
        help="Folder that gets the compiled HLO of our programs, and traces of a few steps.",
    )
    add("--check", action="store_true", help="Compare the losses with TensorFlow's.")
    add("--rounds", type=_positive, default=5, help="Turns of each variant.")
    add("--steps", type=_positive, default=20, help="Steps a turn.")
    add("--peak_tflops", type=float, help="Dense bfloat16 peak of the device.")
    add("--json", type=pathlib.Path, help="File that gets all numbers.")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _parts(text: str) -> list[str]:
    return _some_of([FORWARD, STEP], text)


def _modes(text: str) -> list[str]:
    return _some_of(list(COMPILED_PEERS.values()), text)


def _some_of(known: list[str], text: str) -> list[str]:
    chosen = text.split(",")
    if not set(chosen) <= set(known):
        raise argparse.ArgumentTypeError(f"must be of {','.join(known)}, not {text!r}")
    return chosen


def _choose(asked: str | None, known: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
    if asked is None:
        return known
    for name in asked.split(","):
        if name not in known:
            raise UserError(f"--cases: {name!r} is none of {', '.join(known)}")
    return {name: known[name] for name in asked.split(",")}


@contextlib.contextmanager
def _start(job: Job, options: argparse.Namespace) -> Iterator[dict[str, StepChild]]:
    """Starts the variants of a job; they end with the context."""
    commands = {OURS: our_command("stablehlo_step", str(job.folder), job.part, options.device)}
    on_gpu = options.device == "gpu"
    for name, mode in COMPILED_PEERS.items():
        if options.torch_python and mode in options.torch_modes:
            commands[name] = huggingface_step_command(
                options.torch_python,
                PretrainingConfig(**job.case.config),
                device="cuda" if on_gpu else "cpu",
                compile_mode=mode,
                part=job.part,
            )
    children = {
        name: StepChild(name, command, use_gpu=on_gpu) for name, command in commands.items()
    }
    try:
        yield children
    finally:
        for child in children.values():
            child.stop()


def _warm_up(
    jobs: Sequence[Job], children: Sequence[dict[str, StepChild]], attempts: Attempts
) -> None:
    """Lets all variants compile, side by side; those that fail are removed."""
    waiting = [
        (job, of_job, name)
        for job, of_job in zip(jobs, children, strict=True)
        for name in list(of_job)
    ]
    with concurrent.futures.ThreadPoolExecutor(len(waiting)) as threads:
        for job, _, name in waiting:
            print(f"{job.label}, {name}: compiling …", file=sys.stderr, flush=True)
        answers = threads.map(
            lambda each: attempts.call(each[0].label, each[1][each[2]].run, WARM_UP_STEPS),
            waiting,
        )
        failed = [each for each, answer in zip(waiting, answers, strict=True) if not answer]
    for _, of_job, name in failed:
        of_job.pop(name).stop()


def _measure(
    job: Job,
    children: dict[str, StepChild],
    options: argparse.Namespace,
    attempts: Attempts,
    found: dict[str, list[Measurement]],
) -> Device | None:
    """Adds the turns of the variants that do not fail to `found`, and returns our device."""
    device = None
    if OURS in children:
        device = attempts.call(job.label, _ask_device, children[OURS])
        if options.check and job.part == STEP:
            attempts.call(job.label, check_losses, job.case, children[OURS])
    turns: dict[str, list[Answer]] = {name: [] for name in children}
    for _ in range(options.rounds):
        for name in list(turns):
            answer = attempts.call(job.label, children[name].run, options.steps)
            if answer is None:
                del turns[name]
            else:
                turns[name].append(answer)
    if options.profile and OURS in turns:
        directory = options.profile / f"{job.folder.name}-{job.part}"
        attempts.call(job.label, children[OURS].ask, f"profile {directory.resolve()}")
    if turns:
        found[job.label] = [summarize(n, turns[n], options.steps) for n in turns]
        for measured in found[job.label]:
            seconds = statistics.median(measured.seconds_per_step)
            print(f"{job.label}, {measured.variant}: {1000 * seconds:.1f} ms", file=sys.stderr)
    return device


def _ask_device(child: StepChild) -> Device:
    return Device(**child.ask("device"))


def check_losses(case: LoweredCase, child: StepChild) -> None:
    """Compares the first losses with TensorFlow's.

    Raises:
        UserError: they differ by more than rounding.
    """
    if case.losses is None:
        print(f"{case.name}: not checked, it was lowered without TensorFlow's losses")
        return
    losses = child.ask(f"losses {len(case.losses)}")
    # Unlike max, this is NaN if one loss is.
    worst = np.max(np.abs(np.divide(losses, case.losses) - 1))
    print(
        f"{case.name}: {len(losses)} losses differ from TensorFlow {case.tensorflow} by at "
        f"most {worst:.1e} (relative)"
    )
    if not worst <= TOLERANCES[case.config["precision"]]:
        raise UserError(
            f"losses differ by {worst:.1e}: TensorFlow {case.losses}, here {losses}"
        )


def _write_json(
    path: pathlib.Path,
    device: Device,
    workloads: dict[str, Workload],
    found: dict[str, list[Measurement]],
) -> None:
    content = {
        "device": dataclasses.asdict(device),
        "cases": {
            label: {
                **dataclasses.asdict(workload),
                "variants": [dataclasses.asdict(m) for m in found[label]],
            }
            for label, workload in workloads.items()
        },
    }
    write_atomically(path, json.dumps(content, indent=2) + "\n")
    print(f"\nWritten to {path}")


def serve(folder: str, part: str, device: str) -> None:
    """Is one of our children: runs as many steps as each line of standard input says.

    The other questions are "device", "losses N" for those of the first N steps, and "profile
    DIR" for the files of `--profile`.
    """
    case = LoweredCase.read(pathlib.Path(folder))
    if case.config["triton_kernels"]:
        prefer_cublas()  # as the programs do
    # One at a time: XLA runs the kernels that it chooses from, and must not be disturbed.
    with _lock(pathlib.Path(folder).parent):
        program = JaxProgram(pathlib.Path(folder), case.programs[part], device)
    for line in sys.stdin:
        question, _, rest = line.strip().partition(" ")
        if question == "device":
            answer = {
                "name": program.device.device_kind,
                "platform": program.device.platform,
                "jax": program.version,
            }
        elif question == "losses":
            program.reset()
            answer = [program.run(1) for _ in range(int(rest))]
        elif question == "profile":
            program.profile(pathlib.Path(rest), PROFILED_STEPS)
            answer = rest
        else:
            answer = dataclasses.asdict(_timed(program, int(question), case.parameters))
        print(json.dumps(answer), flush=True)


@contextlib.contextmanager
def _lock(directory: pathlib.Path) -> Iterator[None]:
    """Waits until no other process is in this context with the folder."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _timed(program: JaxProgram, num_steps: int, parameters: int) -> Answer:
    start, cpu_start = time.perf_counter(), time.process_time()
    loss = program.run(num_steps)
    return Answer(
        seconds=time.perf_counter() - start,
        cpu_seconds=time.process_time() - cpu_start,
        loss=loss,
        parameters=parameters,
        max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        peak_device_bytes=program.peak_bytes(),
    )


if __name__ == "__main__":
    try:
        main()
    except UserError as refused:
        sys.exit(f"Error: {refused}")
