"""The commands of the documentation parse: programs, flags, choices, numbers and recipes.

So do those of `--help`; those of the demo are run, one after the other.
"""

import ast
import inspect
import pathlib
import re
import shlex
import shutil

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
    programs,
    replaced_tokens,
    report,
    scoring,
    vocabulary,
    web_demo,
)
from flags.command_line import parsing, program_names
from tests.in_process import run_program

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
DEMO = "demo/output"
# A server, which tests/test_readme.py starts.
NOT_RUN = "serve_demo.py"
QUICKLY = {
    "run_pretraining.py": ["--num_train_steps=2", "--num_warmup_steps=0"],
    "run_finetuning.py": ["--num_train_epochs=0.2"],
}
BASH = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: pathlib.Path) -> list[list[str]]:
    """Returns the commands of a page's bash blocks that run our programs."""
    lines = "".join(BASH.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    found = (shlex.split(line, comments=True) for line in lines.splitlines())
    return [words[1:] for words in found if words and words[0] == "python" and words[1] != "-m"]


def help_commands() -> list[list[str]]:
    """Returns the commands of `--help`, then those at the top of the programs' files."""
    names = [name.removesuffix(".py") for name in DEFINE_FLAGS]
    # In the order in which they are defined, which is that of their use.
    functions = sorted((getattr(programs, name) for name in names), key=_first_line)
    texts = [inspect.getdoc(function) for function in functions]
    files = [ROOT / f"{name}.py" for name in names]
    texts += [ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in files]
    lines = "\n".join(texts).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("    python ")]


def _first_line(function) -> int:
    return inspect.unwrap(function).__code__.co_firstlineno


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


def test_every_command_of_help_parses(monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = help_commands()
    for command in commands:
        check(*command)
    assert {command[0] for command in commands} == DEFINE_FLAGS.keys()


def test_the_commands_of_help_for_the_demo_work_together(tmp_path, monkeypatch, capfd):
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("output"))
    for name in DEFINE_FLAGS:
        (tmp_path / name).symlink_to(ROOT / name)
    ran = set()
    for program, *flags in help_commands():
        command = (program, *flags)
        if program == NOT_RUN or command in ran or DEMO not in " ".join(flags):
            continue
        ran.add(command)
        result = run_program(
            [program, *flags, *QUICKLY.get(program, [])], tmp_path, monkeypatch, capfd
        )
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stderr}"
    assert len(ran) > 10


def test_the_pages_have_commands():
    assert DEFINE_FLAGS.keys() == program_names.CONSOLE_SCRIPTS.keys()
    assert sum(len(commands(page)) for page in PAGES) > 40


@pytest.mark.parametrize(
    "wrong", ["--max_seq_lenght=3", "--masking=words", "--flagfile=recipes/none.flags"]
)
def test_wrong_commands_are_found(wrong):
    with pytest.raises((UserError, absl_flags.Error), match=r"lenght|words|none"):
        check("run_pretraining.py", "--data-dir=d", "--model-name=m", wrong)
