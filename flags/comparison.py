"""Flags of `compare_results.py`."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_not_input, check_output_file
from electra_tf.util.path_checks import check_not_empty
from finetune.results.result_files import JSON_SUFFIX
from flags.remote.paths import Role

# Flags that accept remote paths (gs://…).
REMOTE = {"results": Role.RUN, "output": Role.OUTPUT_FILE}
# Written to the same folder by `run_pretraining.py --do_eval`.
_PRETRAINING_RESULTS = "unsup_results.json"


@dataclasses.dataclass(frozen=True)
class ComparisonConfig:
    """Results to compare.

    Attributes:
        results: paths of `*_results.json` files.
        names: row name of each path; None uses the model names.
        output: Markdown file to write, or None to only print.
    """

    results: tuple[str, ...]
    names: tuple[str, ...] | None
    output: str | None


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines `--results`, `--names` and `--output`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_multi_string(
        "results",
        None,
        f"Result files (<tasks>{JSON_SUFFIX}) or folders of them, comma-separated; may be "
        "repeated.",
        required=True,
        **options,
    )
    flags.DEFINE_multi_string(
        "names",
        None,
        "Row names, comma-separated, one per result file, or one per file or folder of "
        "--results; model names if unset.",
        **options,
    )
    flags.DEFINE_string(
        "output", None, "Also write the table to this Markdown file.", **options
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ComparisonConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a result file does not exist, a path is empty, or the table cannot be
            written, or would replace a result file.
    """
    output = flag_values.output
    check_not_empty(output, "--output")
    given = [files for value in flag_values.results for files in _results_files(value)]
    results = [path for files in given for path in files]
    if flag_values.names is None:
        names = None
    else:
        names = tuple(n.strip() for value in flag_values.names for n in value.split(","))
        if not all(names):
            raise UserError("--names has an empty name: pass one for each result file")
        if len(names) == len(given):  # the files of a folder are in one row
            pairs = zip(names, given, strict=True)
            names = tuple(name for name, files in pairs for _ in files)
    if output is not None:
        output = os.path.expanduser(output)
        check_output_file(output, "--output")
        for path in results:
            check_not_input(output, "--output", {"--results": path})
        if os.path.exists(output) and not _is_table(output):
            raise UserError(
                f"--output={output} is not a table of this program: pass another path"
            )
    return ComparisonConfig(tuple(results), names, output)


def _is_table(path: str) -> bool:
    """Whether a file is empty, or begins like a table of this program."""
    with open(path, "rb") as file:
        line = file.readline()
    return not line or line.startswith(b"| model |")


def _results_files(value: str) -> list[list[str]]:
    """Returns the files of each file or folder of a comma-separated list."""
    files: list[list[str]] = []
    for path in _split_paths(value):
        if not os.path.isdir(path):
            files.append([path])
            continue
        found = sorted(
            str(p)
            for p in pathlib.Path(path).glob(f"*{JSON_SUFFIX}")
            if p.name != _PRETRAINING_RESULTS
        )
        if not found:
            raise UserError(f"--results: no *{JSON_SUFFIX} in {path}")
        files.append(found)
    return files


def _split_paths(value: str) -> list[str]:
    """Splits at commas, except those within a file name ("a,b_results.json")."""
    pieces: Sequence[str] = value.split(",")
    paths = []
    while pieces:
        for end in range(len(pieces), 0, -1):
            path = os.path.expanduser(",".join(pieces[:end]).strip())
            if path and os.path.exists(path):
                break
        else:
            raise UserError(f"--results: no such file or folder: {pieces[0].strip()!r}")
        paths.append(path)
        pieces = pieces[end:]
    return paths
