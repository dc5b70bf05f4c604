"""Programs that run in the tests' own process have the command line to themselves."""

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
