"""Names of the programs: of files in a checkout, and of console scripts."""

import pathlib
import re
import shlex
import sys
from collections.abc import Mapping

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


def next_command(file: str, *more: str) -> str:
    """Returns a line that suggests a program with the flags of this command and `more`."""
    arguments = shlex.join([*sys.argv[1:], *more])
    return spell_programs(f"Next:        python {file} {arguments}")


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
