"""Names of the programs: files in a checkout, or console scripts."""

import pathlib
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence

# The programs of a checkout, and their console scripts.
CONSOLE_SCRIPTS: Mapping[str, str] = {
    "run_pretraining.py": "electra-pretrain",
    "run_finetuning.py": "electra-finetune",
    "build_pretraining_dataset.py": "electra-build-dataset",
    "build_openwebtext_pretraining_dataset.py": "electra-build-openwebtext",
    "build_vocabulary.py": "electra-build-vocabulary",
    "inspect_dataset.py": "electra-inspect",
    "convert_checkpoint.py": "electra-convert",
    "export_saved_model.py": "electra-export",
    "score_text.py": "electra-score",
    "show_replaced_tokens.py": "electra-show-replaced",
    "serve_demo.py": "electra-serve-demo",
    "compare_results.py": "electra-compare",
    "flops_computation.py": "electra-flops",
    "report.py": "electra-report",
}
# Flags of a run of several workers.
_WORKER_FLAGS = ("strategy", "workers", "task_index", "worker_timeout", "shard_by")


def next_command(file: str, *more: str, worker_settings: Collection[str] = ()) -> str:
    """Returns a line that suggests a program with the flags of this command and `more`.

    Args:
        file: the program.
        *more: further flags.
        worker_settings: settings that make this command one of several workers; the suggested
            command runs on one host, without them.
    """
    given, removed = (
        _without_worker_flags(sys.argv[1:]) if worker_settings else (sys.argv[1:], set())
    )
    in_files = ", ".join(f"--{name}" for name in worker_settings if name not in removed)
    # No flag overrides the list of workers in a file.
    without = f"without {in_files} of --flagfile or --hparams, " if in_files else ""
    arguments = shlex.join([*given, *more])
    return spell_programs(f"Next:        {without}python {file} {arguments}")


def _without_worker_flags(arguments: Sequence[str]) -> tuple[list[str], set[str]]:
    """Returns the arguments without the flags of workers, and the names of these flags."""
    kept, removed = [], set()
    remaining = iter(arguments)
    for argument in remaining:
        flag, equals, _ = argument.partition("=")
        name = flag.lstrip("-").replace("-", "_")
        if not flag.startswith("-") or name not in _WORKER_FLAGS:
            kept.append(argument)
            continue
        removed.add(name)
        if not equals:
            next(remaining, "")  # its value
    return kept, removed


def spell_programs(text: str) -> str:
    """Replaces `python run_pretraining.py` by `electra-pretrain` if a console script runs."""
    if pathlib.Path(sys.argv[0]).stem not in CONSOLE_SCRIPTS.values():
        return text
    for file, script in CONSOLE_SCRIPTS.items():
        text = re.sub(rf"\b(?:python )?{re.escape(file)}", script, text)
    return text


def print_line(line: str) -> None:
    """Prints a line of output, with program names as the user types them."""
    print(spell_programs(line))
