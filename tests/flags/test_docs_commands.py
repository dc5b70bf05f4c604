"""The commands of the documentation parse: programs, flags, choices, numbers and recipes."""

import pathlib
import re
import shlex

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from flags import (
    comparison,
    conversion,
    corpus,
    export,
    finetuning,
    flops,
    inspection,
    pretraining,
    replaced_tokens,
    report,
    scoring,
    vocabulary,
    web_demo,
)
from flags.command_line import parsing, program_names

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFINE_FLAGS = {
    "build_pretraining_dataset.py": corpus.define_corpus_flags,
    "build_openwebtext_pretraining_dataset.py": corpus.define_openwebtext_flags,
    "build_vocabulary.py": vocabulary.define_flags,
    "inspect_dataset.py": inspection.define_flags,
    "run_pretraining.py": pretraining.define_flags,
    "run_finetuning.py": finetuning.define_flags,
    "convert_checkpoint.py": conversion.define_flags,
    "export_saved_model.py": export.define_flags,
    "score_text.py": scoring.define_flags,
    "show_replaced_tokens.py": replaced_tokens.define_flags,
    "serve_demo.py": web_demo.define_flags,
    "compare_results.py": comparison.define_flags,
    "flops_computation.py": flops.define_flags,
    "report.py": report.define_flags,
}
BASH = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: pathlib.Path) -> list[list[str]]:
    """Returns the commands of a page's bash blocks that run our programs."""
    lines = "".join(BASH.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    found = (shlex.split(line, comments=True) for line in lines.splitlines())
    return [words[1:] for words in found if words and words[0] == "python" and words[1] != "-m"]


def check(program: str, *arguments: str) -> None:
    """Parses a command line.

    Raises:
        UserError, absl_flags.Error: a flag or its value is invalid, or there is no such recipe.
    """
    flag_values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("flagfile", None, "As absl's own.", flag_values=flag_values)
    DEFINE_FLAGS[program](flag_values)
    parsing.parse([program, *arguments], corpus.ALIASES, flag_values)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_parses(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for command in commands(page):
        check(*command)


def test_the_pages_have_commands():
    assert DEFINE_FLAGS.keys() == program_names.CONSOLE_SCRIPTS.keys()
    assert sum(len(commands(page)) for page in PAGES) > 40


@pytest.mark.parametrize(
    "wrong", ["--max_seq_lenght=3", "--masking=words", "--flagfile=recipes/none.flags"]
)
def test_wrong_commands_are_found(wrong):
    with pytest.raises((UserError, absl_flags.Error), match=r"lenght|words|none"):
        check("run_pretraining.py", "--data-dir=d", "--model-name=m", wrong)
