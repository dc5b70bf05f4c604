"""The order of the packages, read from the syntax trees: who may import whom."""

import ast
import functools
import importlib.util
import pathlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("electra_tf", "pretrain_data", "finetune", "flags")

# Lowest first. A file imports files of lower layers, and of its own room; the rooms of one
# layer never import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("electra_tf.util",),
    ("electra_tf.text",),
    ("electra_tf.config",),
    ("electra_tf.model",),
    ("electra_tf.masking", "electra_tf.training"),
    ("electra_tf.report",),
    ("electra_tf.generators",),
    ("electra_tf.pretraining_objective",),
    ("electra_tf.pretraining_model",),
    ("electra_tf.objectives", "electra_tf.pretraining_optimizer"),
    ("electra_tf.flops",),
    ("electra_tf.model_builder",),
    ("electra_tf.interop",),
    ("electra_tf.pretraining", "electra_tf.inference"),
    (
        "pretrain_data.corpus",
        "pretrain_data.examples",
        "pretrain_data.parallel",
        "pretrain_data.records",
    ),
    ("pretrain_data.vocabulary", "pretrain_data.build", "pretrain_data.inspect"),
    ("finetune.config",),
    ("finetune.data", "finetune.results"),
    ("finetune.model",),
    ("finetune.tasks",),
    (
        "finetune.task_data",
        "finetune.predictor",
        "finetune.model_family",
        "finetune.authors_tasks",
        "finetune.export",
    ),
    ("finetune.dev_evaluations", "finetune.initialization", "finetune.optimizer"),
    ("finetune.trainer",),
    ("finetune.prediction_files",),
    ("finetune.trials",),
    ("finetune.ensemble",),
    ("finetune.run_inputs", "finetune.run_description"),
    ("finetune.run",),
    ("finetune.search",),
    ("flags",),
)
# What pretrain_data may use of the library.
DATA_PATH_MAY_IMPORT = (
    "electra_tf.util",
    "electra_tf.text",
    "electra_tf.training.distribution.shards",
)
# Imports inside of functions: programs load TensorFlow after their flags are parsed, and the
# worker processes of the builders load it for themselves.
MAY_IMPORT_LATE = (
    "flags.programs",
    "pretrain_data.build.drivers.cluster_work",
    "pretrain_data.build.corpus_builder",
    "pretrain_data.vocabulary.word_counts",
    "pretrain_data.build.drivers.worker",
)


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    """Returns every module of the product by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Yields our modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules())
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if full in modules():
                yield full
            elif node.module in modules():
                yield node.module


@functools.cache
def imports_of(module: str) -> frozenset[str]:
    """Returns our modules that a module imports anywhere, in functions and guards too."""
    return frozenset(name for node in ast.walk(tree(module)) for name in imported(node))


def edges() -> list[tuple[str, str]]:
    return [(module, other) for module in sorted(modules()) for other in imports_of(module)]


def room_of(module: str) -> tuple[int, str] | None:
    """Returns the layer of a module and its room in it; None for a package's __init__."""
    for layer, rooms in enumerate(LAYERS):
        for room in rooms:
            if module == room or module.startswith(f"{room}."):
                return layer, room
    return None


def test_every_file_has_a_place():
    outside = [module for module in modules() if room_of(module) is None]
    assert [
        module
        for module in outside
        if module not in ("electra_tf", "pretrain_data", "finetune")
    ] == []


def test_the_page_has_the_same_order():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\d+\. (`.*`)$", page, re.MULTILINE)
    written = [tuple(re.findall(r"`([^`]+)`", row)) for row in rows]
    files = [tuple(_path(room) for room in rooms) for rooms in LAYERS]
    assert written == files


def _path(room: str) -> str:
    path = room.replace(".", "/")
    return path if (ROOT / path).is_dir() else f"{path}.py"


def test_imports_go_down():
    wrong = []
    for module, other in edges():
        here, there = room_of(module), room_of(other)
        if here is None or there is None or here == there:
            continue
        if there[0] >= here[0]:
            wrong.append(f"{module} -> {other}")
    assert wrong == []


def test_packages_keep_to_what_they_may_use():
    wrong = []
    for module, other in edges():
        package, target = module.split(".")[0], other.split(".")[0]
        allowed = (
            package == target
            or package == "flags"
            or (package == "finetune" and target == "electra_tf")
            or (package == "pretrain_data" and other.startswith(DATA_PATH_MAY_IMPORT))
        )
        if not allowed:
            wrong.append(f"{module} -> {other}")
    assert wrong == []


def test_no_file_imports_itself_through_others():
    reached: dict[str, set[str]] = {}
    for module in modules():
        seen, waiting = set(), [module]
        while waiting:
            for other in imports_of(waiting.pop()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        reached[module] = seen
    assert sorted(module for module, seen in reached.items() if module in seen) == []


def test_our_modules_are_imported_at_the_top():
    late = []
    for module in modules():
        if module in MAY_IMPORT_LATE:
            continue
        top = set(tree(module).body)
        late += [
            f"{module}:{node.lineno} -> {name}"
            for node in ast.walk(tree(module))
            if node not in top
            for name in imported(node)
        ]
    assert late == []


def test_packages_import_nothing():
    # The registries of the packages are tables; an __init__ that imports hides a circle.
    inits = [m for m, path in modules().items() if path.name == "__init__.py"]
    assert [module for module in inits if imports_of(module)] == []
    assert [module for module in inits if not ast.get_docstring(tree(module))] == []


def folders_that_say_what_they_import() -> list[tuple[str, str]]:
    """Returns each folder and what its docstring says that it imports."""
    found = []
    for module, path in sorted(modules().items()):
        docstring = " ".join((ast.get_docstring(tree(module)) or "").split())
        if path.name == "__init__.py" and "Imports " in docstring:
            found.append((module, docstring.split("Imports ", 1)[1]))
    return found


@pytest.mark.parametrize(("folder", "said"), folders_that_say_what_they_import())
def test_a_folder_imports_what_it_says(folder, said):
    def is_in(module: str, package: str) -> bool:
        return module == package or module.startswith(f"{package}.")

    said = said.split(". ")[0]
    named = [name for name in re.findall(r"`([\w.]+)`", said) if name in modules()]
    package = folder.split(".")[0]
    others = {
        other
        for module in modules()
        if is_in(module, folder)
        for other in imports_of(module)
        if not is_in(other, folder)
    }
    if said.startswith("no"):
        named = []
    unused = [name for name in named if not any(is_in(other, name) for other in others)]
    assert unused == []
    if "layers below" not in said and "what they import" not in said:
        of_package = {other for other in others if is_in(other, package) and other != package}
        assert [
            o for o in sorted(of_package) if not any(is_in(o, name) for name in named)
        ] == []


def test_only_flags_read_flags():
    named = [
        module
        for module in modules()
        if not module.startswith("flags")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and node.attr == "FLAGS"
    ]
    assert named == []


def registry_strings() -> list[tuple[str, str]]:
    """Returns (module, "module:name") of every such string in the product."""
    return [
        (module, node.value)
        for module in sorted(modules())
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.split(":")[0] in modules()
        and node.value.count(":") == 1
        and " " not in node.value
    ]


def test_there_are_registries():
    assert len(registry_strings()) > 10


@pytest.mark.parametrize(("module", "target"), registry_strings())
def test_a_registry_names_what_exists(module, target):
    name = target.split(":")[0]
    assert importlib.util.find_spec(name) is not None
    assert pkgutil.resolve_name(target) is not None


def test_a_registry_is_loaded_from_above():
    """Whoever calls `choices.load(choices.TABLE, …)` stands above what the table names."""
    tables: dict[str, list[str]] = {}
    for node in tree("electra_tf.config.choices").body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            values = [
                value.value for value in node.value.values if isinstance(value, ast.Constant)
            ]
            tables[node.targets[0].id] = [v.split(":")[0] for v in values if ":" in str(v)]
    calls = 0
    for module in modules():
        for node in ast.walk(tree(module)):
            if not (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("choices.load", "load")
            ):
                continue
            table = ast.unparse(node.args[0]).split(".")[-1]
            for target in tables.get(table, ()):
                calls += 1
                here, there = room_of(module), room_of(target)
                folder = module.rpartition(".")[0]
                assert there[0] < here[0] or target.startswith(f"{folder}."), (module, target)
    assert calls
