r"""Compares two checkouts of the project run by run, bit for bit.

    python -m benchmarks.compare_checkouts --before OLD --after NEW --work WORK
    python -m benchmarks.compare_checkouts --before OLD --after NEW --work WORK \
        --only 'electric|two_stage'

Each case runs the project's programs with both checkouts on the same small inputs. The cases
cover pre-training (every objective, masking, generator, kind of sharing and precision;
replicas and gradient accumulation; killed and preempted runs that resume), evaluation and
scoring, fine-tuning of every kind of task, conversion, export, corpus building and FLOPs.
Then everything the two checkouts wrote is compared: the keys, dtypes, shapes and bits of all
checkpoint arrays, every value in logs, TensorBoard, results and predictions, and the bytes of
records. Times and rates are left out.

Outputs stay in `--work`; a case is not run again until a .py file of its checkout changes.
Without `--after`, only the reference is recorded. The exit status is 1 if anything differs.
Recording a checkout takes about 25 minutes on two cores.
"""

import concurrent.futures
import functools
import pathlib
import re

from absl import flags

from benchmarks.compare_checkouts.cases import Case
from benchmarks.compare_checkouts.comparing import (
    Comparison,
    compare_folders,
    compare_last_checkpoints,
)
from benchmarks.compare_checkouts.finetuning_cases import FINETUNING_CASES
from benchmarks.compare_checkouts.pretraining_cases import PRETRAINING_CASES
from benchmarks.compare_checkouts.program_cases import PROGRAM_CASES
from benchmarks.compare_checkouts.running import Outcome, Side
from electra_tf.util.errors import UserError
from flags.command_line import program

_BEFORE = flags.DEFINE_string("before", None, "Reference checkout.")
_AFTER = flags.DEFINE_string("after", None, "Checkout to compare with the reference.")
_WORK = flags.DEFINE_string("work", "compared_checkouts", "Folder of inputs and outputs.")
_ONLY = flags.DEFINE_string("only", "", "Regular expression that selects cases.")
_JOBS = flags.DEFINE_integer("jobs", 1, "Cases that run concurrently.", lower_bound=1)
_SHOWN = flags.DEFINE_integer("shown", 8, "Differences printed per case.", lower_bound=1)

CASES: tuple[Case, ...] = (*PRETRAINING_CASES, *FINETUNING_CASES, *PROGRAM_CASES)


def main() -> int:
    """Runs the missing cases and prints a line for each; returns the exit status."""
    if not _BEFORE.value:
        raise UserError("--before is required")
    cases = _chosen(_ONLY.value)
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()  # reads checkpoints
    work = pathlib.Path(_WORK.value).resolve()
    before = Side("before", pathlib.Path(_BEFORE.value), work)
    sides = [before]
    if _AFTER.value:
        sides.append(Side("after", pathlib.Path(_AFTER.value), work))
    inputs = before.prepare_inputs()
    run_case = functools.partial(_run_case, sides=sides, inputs=inputs)
    # `same_as` cases read the outputs of another case, so they run after all others.
    groups = [[case for case in cases if bool(case.same_as) == late] for late in (False, True)]
    failed = []
    with concurrent.futures.ThreadPoolExecutor(_JOBS.value) as pool:
        for group in groups:
            passed = pool.map(run_case, group)
            failed += [case.name for case, ok in zip(group, passed, strict=True) if not ok]
    print(f"\n{len(cases) - len(failed)} of {len(cases)} cases passed. Outputs: {work}")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def _chosen(pattern: str) -> list[Case]:
    """Returns the cases of a pattern, and those that they are compared with."""
    chosen = {case.name for case in CASES if re.search(pattern, case.name)}
    if not chosen:
        names = ", ".join(case.name for case in CASES)
        raise UserError(f"--only={pattern} is found in none of the cases: {names}")
    chosen |= {case.same_as for case in CASES if case.name in chosen and case.same_as}
    return [case for case in CASES if case.name in chosen]


def _run_case(case: Case, *, sides: list[Side], inputs: pathlib.Path) -> bool:
    """Runs a case with every side and prints its line; returns whether it passed."""
    outcomes = [side.run(case, inputs) for side in sides]
    times = "  ".join(_time(outcome) for outcome in outcomes)
    head = f"{case.name:47} {times:12}"
    errors = [
        f"{side.name}: {outcome.error}"
        for side, outcome in zip(sides, outcomes, strict=True)
        if outcome.error
    ]
    if errors:
        print("\n  ".join([f"{head} FAILED", *errors]), flush=True)
        return False
    result = Comparison()
    if len(sides) == 2:
        result = compare_folders(outcomes[0].folder, outcomes[1].folder, inputs)
    if case.same_as:
        for side, outcome in zip(sides, outcomes, strict=True):
            other = outcome.folder.parent / case.same_as
            label = f"{side.name}, against {case.same_as}:"
            compare_last_checkpoints(outcome.folder, other, label, result)
    print("\n  ".join([f"{head} {_summary(result)}", *_details(result)]), flush=True)
    return not result.differences


def _summary(result: Comparison) -> str:
    counts = {
        "checkpoints": result.checkpoints,
        "arrays": result.arrays,
        "values": result.values,
        "files": result.files,
    }
    compared = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if not compared:
        return "recorded"
    if result.differences:
        return f"{compared}: {len(result.differences)} DIFFERENCES"
    return f"{compared}: equal"


def _details(result: Comparison) -> list[str]:
    lines = [f"{each.where}: {each.what}" for each in result.differences[: _SHOWN.value]]
    hidden = len(result.differences) - len(lines)
    lines += [f"… and {hidden} more"] if hidden else []
    return lines + [f"note: {note}" for note in result.notes]


def _time(outcome: Outcome) -> str:
    return "reused" if outcome.reused else f"{outcome.seconds:.0f} s"


if __name__ == "__main__":
    program.run(main)
