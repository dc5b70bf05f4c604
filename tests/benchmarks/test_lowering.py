"""The lowered training step: its files, and that jax trains as TensorFlow does."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest

from benchmarks import kernel_times, stablehlo_step
from benchmarks.lowered_case import (
    FORWARD,
    NUM_BATCHES,
    STEP,
    Argument,
    LoweredCase,
    case_folder,
    find_cases,
    read_batches,
    read_program,
)
from benchmarks.lowering import lower_case
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.util.errors import UserError
from tests.conftest import tiny_settings
from tests.jax_python import needs_jax, run_jax

NAME = "small:2:16"
NUM_STEPS = 20


def create_config(tmp_path, tiny_data) -> PretrainingConfig:
    settings = tiny_settings(tiny_data, tmp_path)
    shape = {**settings["model_hparam_overrides"], "num_hidden_layers": 1}
    settings |= {"vocab_size": 1100, "train_batch_size": 2, "jit_compile": True}
    return PretrainingConfig.create(**{**settings, "model_hparam_overrides": shape})


@pytest.fixture(scope="module")
def lowered(tmp_path_factory, tiny_data):
    """The folder of lowered cases, and the only case in it."""
    directory = tmp_path_factory.mktemp("lowered")
    config = create_config(directory, tiny_data)
    folder = case_folder(directory, NAME)
    return directory, lower_case(NAME, config, folder, num_checked_steps=NUM_STEPS)


def test_files(lowered):
    directory, case = lowered
    folder = find_cases(directory)[NAME]
    assert LoweredCase.read(folder) == case
    assert sorted(path.name for path in folder.iterdir()) == [
        "batches.npz",
        "case.json",
        "forward.stablehlo.gz",
        "step.stablehlo.gz",
    ]
    for program in case.programs.values():
        assert read_program(folder, program).startswith(b"ML\xefR\rStableHLO_v1.9.0")
    batches = read_batches(folder)
    assert len(batches) == NUM_BATCHES
    assert {(x.shape, x.dtype.name) for batch in batches for x in batch} == {((2, 16), "int32")}


def test_arguments_are_weights_moments_and_counters(lowered):
    _, case = lowered
    step, forward = (case.programs[name].arguments for name in (STEP, FORWARD))
    weights = [a for a in forward if a.shape]
    assert {a.name for a in weights} < {a.name for a in step}
    assert sum(math.prod(a.shape) for a in weights) == case.parameters
    # The moments of Adam, the counts of steps of the run and of the optimizer.
    assert len(step) == 3 * len(weights) + 2
    assert [a.dtype for a in forward if not a.shape] == ["int64"]
    assert case.programs[STEP].num_results == 2
    assert case.programs[FORWARD].num_results == 1
    # Every variable is updated, in the memory that it has.
    updates = range(len(step))
    assert case.programs[STEP].aliases == tuple((2 + i, 3 + i) for i in updates)
    assert case.programs[FORWARD].aliases == ()
    config = PretrainingConfig(**case.config)
    assert case.programs[STEP].model_flops == model_flops_per_step(config)
    assert len(case.losses) == NUM_STEPS
    assert np.mean(case.losses[:4]) > np.mean(case.losses[-4:]) > 0


def test_kernels_of_a_gpu_are_in_the_programs(tmp_path, tiny_data):
    pytest.importorskip("triton")
    settings = dataclasses.asdict(create_config(tmp_path, tiny_data)) | {
        "triton_kernels": True,
        "precision": "mixed_bfloat16",
        "rematerialize": True,
        "gradient_accumulation_steps": 2,
    }
    settings["model_hparam_overrides"] |= {"hidden_size": 32, "num_attention_heads": 2}
    config = PretrainingConfig.create(**settings)
    case = lower_case(NAME, config, tmp_path, num_checked_steps=1, kernel_capability=90)
    code = {name: read_program(tmp_path, case.programs[name]) for name in (FORWARD, STEP)}
    for name in ("attention", "add_norm"):
        assert f"{name}_forward".encode() in code[FORWARD]
        assert f"{name}_backward".encode() not in code[FORWARD]
        assert f"{name}_backward".encode() in code[STEP]
    assert b"bias_gelu_backward" in code[STEP]
    # Computed without the kernels, which no CPU has.
    assert np.isfinite(case.losses[0])


def test_initial_values_are_the_same_everywhere():
    drawn = Argument(name="w", shape=(200, 50), dtype="float32", stddev=0.02, seed=3)
    value = drawn.initial_value()
    assert value.dtype == np.float32
    assert value.std() == pytest.approx(0.02, rel=0.05)
    np.testing.assert_array_equal(value, drawn.initial_value())
    assert np.any(value != dataclasses.replace(drawn, seed=4).initial_value())
    ones = Argument(name="g", shape=(2,), dtype="float32", value=1.0).initial_value()
    np.testing.assert_array_equal(ones, np.ones(2, np.float32))


def test_folders_without_cases_are_refused(tmp_path):
    with pytest.raises(UserError, match="has no lowered case: write some by"):
        stablehlo_step.main([str(tmp_path)])
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "case.json").write_text("{}")
    with pytest.raises(UserError, match=r"case\.json is no lowered case"):
        stablehlo_step.main([str(tmp_path)])


def test_unknown_cases_are_refused(lowered):
    with pytest.raises(UserError, match="'base:1:1' is none of small:2:16"):
        stablehlo_step.main([str(lowered[0]), "--cases=base:1:1"])


@pytest.mark.parametrize("wrong", [1.001, math.nan])
def test_other_losses_are_refused(lowered, wrong, capsys):
    _, case = lowered
    child = types.SimpleNamespace(ask=lambda _: list(case.losses))
    stablehlo_step.check_losses(case, child)
    assert "20 losses differ" in capsys.readouterr().out
    child.ask = lambda _: [*case.losses[:-1], wrong * case.losses[-1]]
    with pytest.raises(UserError, match="losses differ by"):
        stablehlo_step.check_losses(case, child)


@needs_jax
def test_jax_trains_as_tensorflow(lowered, tmp_path):
    directory, case = lowered
    out = tmp_path / "numbers.json"
    ran = run_jax(
        *("-m", "benchmarks.stablehlo_step", str(directory), "--device=cpu", "--check"),
        *("--rounds=2", "--steps=3", f"--json={out}"),
        *("--together", f"--profile={tmp_path / 'profile'}"),
    )
    assert f"{NAME}: {NUM_STEPS} losses differ from TensorFlow" in ran.stdout
    numbers = json.loads(out.read_text())
    assert list(numbers["cases"]) == [f"{NAME}, {part}" for part in case.programs]
    for measured in numbers["cases"].values():
        assert len(measured["variants"][0]["seconds_per_step"]) == 2
    for label in numbers["cases"]:
        assert f"| {label} |" in ran.stdout
    for part in case.programs:
        (folder,) = (tmp_path / "profile").glob(f"*-{part}")
        assert "ENTRY" in (folder / "compiled_hlo.txt").read_text()
        assert list(folder.glob("**/*.xplane.pb"))


def test_kernels_are_told_by_their_names():
    kernels = [("nvjet_sm90_tst_128x128", 5.0), ("gemm_fusion_dot_3", 2.0), ("fusion_7", 3.0)]
    kernels += [("input_reduce_fusion_2", 1.0), ("loop_add_subtract_fusion", 1.0)]
    kernels += [("loop_multiply_fusion_1", 0.5), ("attention_backward", 4.0)]
    assert kernel_times.sum_by_kind(kernels) == {
        "all": (16.5, 7),
        "Triton's attention": (4.0, 1),
        "matrix products": (7.0, 2),
        "layer norm and softmax": (3.0, 1),
        "reductions": (1.0, 1),
        "Adam": (1.0, 1),
        kernel_times.REST: (0.5, 1),
    }


@pytest.mark.parametrize("wrong", ["--parts=all", "--torch_modes=eager"])
def test_other_choices_are_refused(lowered, wrong, capsys):
    with pytest.raises(SystemExit):
        stablehlo_step.main([str(lowered[0]), wrong])
    assert "must be of" in capsys.readouterr().err
