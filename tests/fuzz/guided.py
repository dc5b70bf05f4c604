"""Gives one target inputs that Atheris makes, guided by the branches that they reach.

`python -m tests.fuzz.guided NAME FOLDER SEED SECONDS` reads `FOLDER/inputs`, to which what
reaches something new is added, and leaves an input that broke a promise as `FOLDER/found-...`.
Started by `tests.faults.fuzzing`; needs the package `atheris`. An input is tried again by
`python -m tests.fuzz.guided NAME FILE`.
"""

import pathlib
import sys
import tempfile

# Packages whose branches guide it: those of the readers.
INSTRUMENTED = ("electra_tf", "finetune", "pretrain_data", "flags", "tests.fuzz")
# An input that takes longer, or more memory, is a finding.
SECONDS_OF_AN_INPUT, MEMORY_MB = 30, 4096


def main() -> None:
    """Reads the arguments and fuzzes until the time is over; Atheris ends the process."""
    name, place = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if place.is_file():
        from tests.fuzz.guided_targets import TARGETS

        with tempfile.TemporaryDirectory() as scratch:
            TARGETS[name].make(pathlib.Path(scratch))(place.read_bytes())
        return
    seed, seconds = sys.argv[3:]
    import atheris

    # Not instrumented, and slow to import otherwise.
    import tensorflow  # noqa: F401

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.guided_targets import TARGETS
    target = TARGETS[name]
    inputs, scratch = place / "inputs", place / "scratch"
    for folder in (inputs, scratch):
        folder.mkdir(exist_ok=True)
    for number, content in enumerate(target.seeds()):
        (inputs / f"seed-{number}").write_bytes(content)
    flags = {
        "seed": seed,
        "max_total_time": seconds,
        "max_len": target.max_bytes,
        "timeout": SECONDS_OF_AN_INPUT,
        "rss_limit_mb": MEMORY_MB,
        "artifact_prefix": f"{place}/found-",
        "print_final_stats": 1,
    }
    options = [f"-{flag}={value}" for flag, value in flags.items()]
    atheris.Setup([sys.argv[0], *options, str(inputs)], target.make(scratch))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
