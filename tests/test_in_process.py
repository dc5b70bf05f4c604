"""Programs that run in the tests' own process have the command line to themselves."""

import re

from absl import flags

from benchmarks import gpu_training_step
from tests.in_process import run_program
from tests.test_readme import ROOT


def test_a_benchmarks_flags_are_put_aside(monkeypatch, capfd):
    name = "device"
    module = flags.FLAGS.find_module_defining_flag(name)
    assert gpu_training_step.__name__ in module
    before = flags.FLAGS[name]
    arguments = ["flops_computation.py", "--flagfile", "recipes/small.flags", "--device=cpu"]
    for _ in range(2):
        result = run_program(arguments, ROOT, monkeypatch, capfd)
        assert (result.returncode, result.stderr) == (0, "")
        assert "FLOPs" in result.stdout
        assert flags.FLAGS[name] is before
        assert flags.FLAGS.find_module_defining_flag(name) == module


def test_benchmarks_that_tests_import_define_different_flags():
    """One worker imports them all; absl refuses a second flag of the same name."""
    imported = re.compile(r"^from benchmarks(?:\.([\w.]+))? import (\(.*?\)|.*?)$", re.M | re.S)
    modules = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for module, names in imported.findall(path.read_text()):
            folder = (ROOT / "benchmarks").joinpath(*module.split("."))
            modules |= {folder.with_suffix(".py")} if module else set()
            modules |= {folder / f"{name}.py" for name in re.findall(r"\w+", names)}
    text = "".join(path.read_text() for path in modules if path.exists())
    # Those of a function are defined only when the benchmark runs as a program.
    names = re.findall(r"^\S.*DEFINE_\w+\(\s*\"(\w+)", text, re.M)
    assert "device" in names
    assert sorted(names) == sorted(set(names))
