"""Documentation, docstrings and comments name only modules, functions and files that exist.

So do strings that are nothing but a dotted name, such as those for `monkeypatch.setattr`.
"""

import ast
import functools
import io
import pathlib
import re
import tokenize

import pytest

from finetune.config.task_kinds import KINDS
from flags.reference import reference

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("electra_tf", "pretrain_data", "finetune", "flags", "benchmarks", "tests")
FOLDERS = (*PACKAGES, "recipes", "demo", "docs")
ARCHITECTURE = ROOT / "docs" / "architecture.md"
BENCHMARKS_PAGE = ROOT / "benchmarks" / "README.md"
TESTS_PAGE = ROOT / "tests" / "README.md"
DOTTED = re.compile(rf"(?<![\w./])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+")
PATH = re.compile(rf"(?<![\w./{{}}-])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w*/]")
# `file.py:function` or `file.py:Class.method`; the file is given by its whole path.
LOCATED = re.compile(r"([\w/]+\.py):([A-Za-z_][\w.]*)")
# Made by `make demo` and by the packaging.
GENERATED = ("demo/output", "flags/recipes")
FILE_SUFFIXES = ("json", "tfrecord", "txt")


def python_files() -> list[pathlib.Path]:
    files = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    return [*sorted(ROOT.glob("*.py")), *files]


def other_files() -> list[pathlib.Path]:
    files = [path for name in ("docs", "demo") for path in sorted((ROOT / name).rglob("*.md"))]
    recipes = [path for path in sorted((ROOT / "recipes").rglob("*")) if path.is_file()]
    recipes = [path for path in recipes if path.suffix not in (".txt", ".json")]
    top = ("README.md", "CONTRIBUTING.md", "RELIABILITY.md", "SECURITY.md")
    others = [ROOT / name for name in (*top, "Makefile", "pyproject.toml")]
    pages = [ROOT / "benchmarks/RESULTS.md", BENCHMARKS_PAGE, TESTS_PAGE]
    return [*others, *files, *recipes, *pages]


def prose(path: pathlib.Path) -> str:
    """Returns docstrings, comments and dotted names of a Python file; all of another file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return source
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    tree = list(ast.walk(ast.parse(source)))
    nodes = [node for node in tree if isinstance(node, documented)]
    strings = [node.value for node in tree if isinstance(node, ast.Constant)]
    names = [text for text in strings if isinstance(text, str) and DOTTED.fullmatch(text)]
    names = [] if path == pathlib.Path(__file__) else names
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *comments, *names])


@functools.cache
def members(path: pathlib.Path, *, imported: bool = True) -> frozenset[str]:
    """Returns the names and `Class.name`s that a module defines, or imports as well."""
    names = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef) and prefix:
                targets = (t for t in ast.walk(node) if isinstance(t, ast.Attribute))
                names.update(prefix + t.attr for t in targets if isinstance(t.ctx, ast.Store))
            elif isinstance(node, ast.Import | ast.ImportFrom) and imported:
                names.update(prefix + (alias.asname or alias.name) for alias in node.names)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                named = (n for target in targets for n in ast.walk(target))
                names.update(prefix + n.id for n in named if isinstance(n, ast.Name))

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return frozenset(names)


def dotted_name_exists(name: str) -> bool:
    """Whether `package.module.Class.name` names a package, a module or something in one."""
    parts = name.split(".")
    if "/".join(parts).startswith(GENERATED):
        return True
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        rest = ".".join(parts[length:])
        if place.is_dir():
            file = place / "__init__.py"
            return not rest or (file.exists() and rest in members(file))
        if place.with_suffix(".py").is_file():
            return not rest or rest in members(place.with_suffix(".py"))
    return False


def path_exists(path: str) -> bool:
    if path.startswith(GENERATED):
        return True
    return any(ROOT.glob(path.rstrip("/"))) if "*" in path else (ROOT / path).exists()


def missing(text: str) -> list[str]:
    """Returns the names and paths of a text that do not exist."""
    dotted = {
        name for name in DOTTED.findall(text) if not _is_absl(name) and not _is_file_name(name)
    }
    located = {f"{path}:{name}" for path, name in LOCATED.findall(text) if "/" in path}
    return sorted(
        [name for name in dotted if not dotted_name_exists(name)]
        + [path for path in set(PATH.findall(text)) if not path_exists(path)]
        + [place for place in located if not located_exists(place)]
    )


def located_exists(place: str) -> bool:
    path, _, name = place.partition(":")
    return (ROOT / path).is_file() and name in members(ROOT / path, imported=False)


def _is_absl(name: str) -> bool:
    """Whether it is a name of `absl.flags`, such as flags.DEFINE_string."""
    return name.startswith("flags.") and name.split(".")[1][0].isupper()


def _is_file_name(name: str) -> bool:
    """Whether it is the name of a file, such as pretrain_data.json."""
    return name.split(".")[1] in FILE_SUFFIXES


@pytest.mark.parametrize(
    "path", [*python_files(), *other_files()], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_named_module_function_and_file_exists(path):
    assert missing(prose(path)) == []


def test_missing_names_are_found():
    assert missing("see electra_tf.no_module and electra_tf.util.errors.UserError") == [
        "electra_tf.no_module"
    ]
    assert missing("electra_tf.util.errors.NoError, flags.DEFINE_string") == [
        "electra_tf.util.errors.NoError"
    ]
    assert missing("in recipes/none.flags and recipes/*.flags and electra_tf/util/") == [
        "recipes/none.flags"
    ]
    assert missing("electra_tf/util/errors.py:NoError electra_tf/util/errors.py:UserError") == [
        "electra_tf/util/errors.py:NoError"
    ]
    # Imported there, defined in electra_tf/util/errors.py.
    imported = "electra_tf/util/files.py:UserError"
    assert missing(imported) == [imported]


def test_the_architecture_locates_its_walks():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert len(LOCATED.findall(text)) >= 12
    named = re.findall(r"`([\w.]+/[\w./]*)`", text)
    assert named
    assert [path for path in named if not path_exists(path)] == []
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Find your way")[1]
    assert "docs/architecture.md" in section
    for folder in re.findall(r"`((?:\w+/)+)`", section):
        assert path_exists(folder), folder


def test_every_module_has_tests_of_its_name_or_is_in_the_tables_of_tests():
    """A row names modules, folders (with a slash at the end), or files of any folder."""
    tables = TESTS_PAGE.read_text(encoding="utf-8").split("no file of their name:")[1]
    rows = re.findall(r"^\| (.*?) \|", tables, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w./]+)`", row)}
    folders = tuple(name for name in named if name.endswith("/"))
    untold = []
    for package in PACKAGES[:4]:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = str(path.relative_to(ROOT))
            tests = ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.name}")
            is_named = module in named or path.name in named or module.startswith(folders)
            if path.name != "__init__.py" and not is_named and not tests.exists():
                untold.append(module)
    assert untold == [], "add tests of the module's name, or a row to tests/README.md"


def test_every_benchmark_is_on_their_page():
    table = BENCHMARKS_PAGE.read_text(encoding="utf-8").split("| question")[1]
    named = set(re.findall(r"`(\w+)(?: [^`]*)?`", table))
    modules = {path.stem for path in BENCHMARKS_PAGE.parent.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in BENCHMARKS_PAGE.parent.glob("*/__main__.py")}
    assert sorted((modules | folders) ^ named) == []


@pytest.mark.parametrize("page", ["own_task", "finetuning"])
def test_every_kind_of_task_is_in_the_tables(page):
    rows = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8").splitlines()
    for kind in KINDS:
        assert any(row.startswith(f"| `{kind.name}` |") for row in rows), kind.name


def test_the_hyperparameters_are_those_of_the_configuration():
    """Otherwise: python -m flags.reference docs/hyperparameters.md."""
    page = (ROOT / "docs" / "hyperparameters.md").read_text(encoding="utf-8")
    written, expected = (set(text.splitlines()) for text in (page, reference()))
    hint = "run: python -m flags.reference docs/hyperparameters.md"
    assert sorted(expected ^ written) == [], hint
    assert page == reference(), hint
    for name in ("learning_rate", "num_folds", "own_task_kind", "worker_timeout"):
        assert page.count(f"| `{name}` |") >= 1
