"""The wheel holds all that its commands need, and they run outside of a checkout."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from flags.command_line import program_names

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("electra_tf", "finetune", "flags", "pretrain_data")
BUILT_FROM = (*PACKAGES, "recipes", "pyproject.toml", "setup.py", "README.md", "LICENSE")
# The version that pyproject.toml asks for.
SETUPTOOLS = 77


def run(*command: str, **options) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    assert "BuildBackendWarning" not in result.stderr, result.stderr  # of setuptools
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> pathlib.Path:
    """The folder that the wheel of a copy of the sources is installed to."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, sources / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, sources / name)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", *isolation(), "--wheel-dir", folder, sources)
    (wheel,) = folder.glob("electra_tf-*.whl")
    run(*pip, "install", "--no-deps", "--target", folder / "installed", wheel)
    return folder / "installed"


def isolation() -> tuple[str, ...]:
    """Returns the option to build without the network, if setuptools here is new enough."""
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return ()
    return ("--no-build-isolation",) if int(version.split(".")[0]) >= SETUPTOOLS else ()


def distribution(installed: pathlib.Path) -> importlib.metadata.Distribution:
    (found,) = importlib.metadata.distributions(path=[str(installed)])
    return found


def test_the_packages_and_their_files(installed):
    folders = {path.name for path in installed.iterdir()}
    info = f"electra_tf-{distribution(installed).version}.dist-info"
    assert folders == {*PACKAGES, info, "bin"}
    for package in PACKAGES:
        there, here = (
            {
                str(path.relative_to(root))
                for path in (root / package).rglob("*")
                if path.is_file() and path.suffix != ".pyc"
            }
            for root in (installed, ROOT)
        )
        there = {path for path in there if not path.startswith("flags/recipes/")}
        assert there == here
        assert f"{package}/py.typed" in there
    for path in (ROOT / "recipes").rglob("*"):
        if path.is_file():
            copy = installed / "flags/recipes" / path.relative_to(ROOT / "recipes")
            assert copy.read_bytes() == path.read_bytes()


def test_the_version_and_the_extras(installed):
    version = run(
        sys.executable, "-c", "import electra_tf; print(electra_tf.__version__)", cwd=installed
    )
    found = distribution(installed)
    assert found.version == version.strip()
    extras = [
        "beam",
        "chinese",
        "corpus",
        "demo",
        "dev",
        "docs",
        "gpu",
        "kerashub",
        "mlflow",
        "onnx",
        "report",
        "scoring",
        "search",
        "serving",
        "test",
        "wandb",
    ]
    assert sorted(found.metadata.get_all("Provides-Extra")) == extras


def test_every_program_is_a_console_script(installed):
    expected = {
        script: f"flags.programs:{file.removesuffix('.py')}"
        for file, script in program_names.CONSOLE_SCRIPTS.items()
    }
    points = distribution(installed).entry_points.select(group="console_scripts")
    assert {point.name: point.value for point in points} == expected
    assert {path.name for path in (installed / "bin").iterdir()} == set(expected)


def test_quickstart_outside_of_a_checkout(installed, tmp_path):
    """Records, a few steps and a second start, with the commands and recipes of the wheel."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    place = {"cwd": tmp_path, "env": environment}
    where = run(sys.executable, "-c", "import flags; print(flags.__file__)", **place)
    assert pathlib.Path(where.strip()) == installed / "flags/__init__.py"

    def script(name: str) -> str:
        return str(installed / "bin" / name)

    (tmp_path / "corpus").mkdir()
    for path in sorted((ROOT / "demo/corpus_heldout").glob("*.txt"))[:2]:
        shutil.copy(path, tmp_path / "corpus")
    shutil.copy(ROOT / "demo/vocab.txt", tmp_path / "vocab.txt")
    built = run(
        script("electra-build-dataset"),
        *("--corpus-dir", "corpus", "--vocab-file", "vocab.txt", "--num-processes", "2"),
        *("--output-dir", "pretrain_tfrecords", "--max-seq-length", "32"),
        **place,
    )
    assert "Next:     electra-pretrain --model_name=electra_small" in built

    helped = run(script("electra-pretrain"), "--helpshort", **place)
    assert "    electra-pretrain --data-dir demo/output --model-name quickstart" in helped
    assert "--num_train_steps" in helped
    assert ".py" not in helped

    steps = ("--num_train_steps=2", "--iterations_per_loop=1", "--train_batch_size=4")
    given = ("--data-dir", ".", "--model-name", "quick", "--flagfile=recipes/quickstart.flags")
    trained = run(script("electra-pretrain"), *given, *steps, **place)
    assert (tmp_path / "models/quick/ckpt-2.index").exists()
    assert "Next:        electra-pretrain --data-dir . --model-name quick" in trained
    again = run(script("electra-pretrain"), *given, *steps, **place)
    assert "ckpt-2" in again
    # The program that would be next shows sentences of a checkout by default.
    evaluated = run(
        script("electra-pretrain"), *given, *steps, "--do_train=false", "--do_eval", **place
    )
    assert "unsup_results.json" in evaluated
    assert "Next:" not in evaluated
