r"""Compares one pre-training step on a CUDA GPU with Hugging Face's ELECTRA on PyTorch.

    python -m benchmarks.gpu_training_step --torch_python /path/to/env/bin/python

Needs a GPU, `pip install -e '.[gpu]'`, and with `--torch_python` a Python of an environment
that has torch for CUDA and transformers; without it only ours is measured. ELECTRA-small and
ELECTRA-base in the batches that `--cases` names.

Ours is the step of `run_pretraining.py --precision=mixed_bfloat16 --jit_compile
--triton_kernels`, or that of XLA alone with `--notriton_kernels`. Theirs is compiled by
`torch.compile`, without CUDA graphs and with them (its mode "reduce-overhead"), and runs under
bfloat16 autocast, with PyTorch's fused attention; `--precision=float32` is for both. See
`benchmarks.training_step` for what the step does. Every variant is a process of its own and has
the GPU to itself: it compiles and warms up, then runs its turns. What the table calls
utilization is model FLOPs (`electra_tf/flops/counting.py`), the same for both, over the time
and the GPU's bfloat16 peak; the peak is looked up by the GPU's name
(`electra_tf/flops/gpu_peaks.py`) unless `--peak_tflops` gives it. Memory is the peak allocation
on the GPU.

A GPU machine that has jax but no TensorFlow runs the very same step: `--lower DIR` writes it
down as StableHLO, on any machine with TensorFlow, and `benchmarks.stablehlo_step` runs it.

    python -m benchmarks.gpu_training_step --lower DIR

`--device cpu` tries the program out where there is no GPU:

    python -m benchmarks.gpu_training_step --device cpu --cases small:2:16 --rounds 1 \
        --steps 1 --model_hparam_overrides '{"num_hidden_layers": 1}'
"""

import dataclasses
import json
import pathlib
import sys
import time

from absl import flags

from benchmarks.lowered_case import case_folder
from benchmarks.pretraining_step import (
    COMPILED_PEERS,
    StepChild,
    huggingface_step_command,
    our_step_command,
)
from benchmarks.side_by_side import describe_machine
from benchmarks.step_measurements import Measurement, Workload, format_table, summarize
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.flops.gpu_peaks import peak_bfloat16_flops
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from flags.command_line import program

_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers; unset measures ours alone."
)
_DEVICE = flags.DEFINE_enum("device", "gpu", ["gpu", "cpu"], "cpu is for trying it out.")
_CASES = flags.DEFINE_list(
    "cases",
    "small:32:128,small:128:128,small:512:128,base:64:128,base:256:128,base:16:512,base:64:512",
    "What to measure, each as size:batch:length; less in a batch for a GPU of little memory.",
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "mixed_bfloat16",
    ["mixed_bfloat16", "float32"],
    "Arithmetic of the matrix products, on both sides.",
)
_TRITON = flags.DEFINE_bool(
    "triton_kernels",
    True,
    "Ours is the step of --triton_kernels; without it, XLA compiles everything. There are no "
    "such kernels for float32 and CPUs.",
)
_CAPABILITY = flags.DEFINE_integer(
    "compute_capability",
    90,
    "GPU that --lower is for with --triton_kernels: 10 times its compute capability.",
    lower_bound=80,
)
_LOWER = flags.DEFINE_string(
    "lower",
    None,
    "Instead of measuring, write the steps of the cases into this folder as StableHLO, for "
    "benchmarks.stablehlo_step.",
)
_CHECKED_CASES = flags.DEFINE_list(
    "checked_cases",
    None,
    "Lowered cases whose first losses TensorFlow computes here, which takes the memory of a "
    "step on the CPU; the first if unset, none if empty.",
)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Turns of each variant.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 20, "Steps a turn.", lower_bound=1)
_PEAK_TFLOPS = flags.DEFINE_float(
    "peak_tflops",
    None,
    "Dense bfloat16 peak of the device; looked up by the GPU's name if unset.",
    lower_bound=0.001,
)
_OVERRIDES = flags.DEFINE_string(
    "model_hparam_overrides", "{}", "JSON object that overrides the sizes, to try it out."
)
_JSON = flags.DEFINE_string("json", None, "File that gets all numbers.")

# The first one compiles.
WARM_UP_STEPS = 3
OURS = "ours, XLA"
NUM_CHECKED_STEPS = 20


def main() -> None:
    """Prints the table, or lowers the steps."""
    configs = [create_config(case) for case in _CASES.value]
    if _LOWER.value:
        lower(dict(zip(_CASES.value, configs, strict=True)), pathlib.Path(_LOWER.value))
        return
    device = find_device() if _DEVICE.value == "gpu" else "CPU"
    peak = _PEAK_TFLOPS.value * 1e12 if _PEAK_TFLOPS.value else peak_bfloat16_flops(device)
    machine = f"{device}; {describe_machine(_TORCH_PYTHON.value)}"
    print(machine, flush=True)
    if peak is None:
        print(f"The peak of {device!r} is not known here: pass --peak_tflops for utilization.")
    found = {case: measure(config) for case, config in zip(_CASES.value, configs, strict=True)}
    workloads = {
        case: Workload(config.train_batch_size, model_flops_per_step(config))
        for case, config in zip(_CASES.value, configs, strict=True)
    }
    print("\n" + format_table(workloads, found, peak))
    if _JSON.value:
        content = {
            "machine": machine,
            "peak_flops": peak,
            "steps_per_round": _STEPS.value,
            "cases": {
                case: {
                    "model_flops_per_step": workload.model_flops,
                    "variants": [dataclasses.asdict(m) for m in found[case]],
                }
                for case, workload in workloads.items()
            },
        }
        write_atomically(_JSON.value, json.dumps(content, indent=2) + "\n")
        print(f"\nWritten to {_JSON.value}")


def lower(configs: dict[str, PretrainingConfig], directory: pathlib.Path) -> None:
    """Lowers the cases into folders of `directory`.

    Raises:
        UserError: `--checked_cases` names another case, before anything is written.
    """
    named = _CHECKED_CASES.value
    checked = list(configs)[:1] if named is None else [case for case in named if case]
    unknown = sorted(set(checked) - configs.keys())
    if unknown:
        raise UserError(f"--checked_cases: {unknown[0]!r} is none of --cases")
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    from benchmarks.lowering import lower_case

    for case, config in configs.items():
        folder = case_folder(directory, case)
        start = time.perf_counter()
        lowered = lower_case(
            case,
            config,
            folder,
            num_checked_steps=NUM_CHECKED_STEPS * (case in checked),
            kernel_capability=_CAPABILITY.value if config.triton_kernels else None,
        )
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        losses = f", losses of {len(lowered.losses)} steps" if lowered.losses else ""
        seconds = time.perf_counter() - start
        print(f"{case}: {size:.1f} MB in {folder}, {seconds:.0f} s{losses}", flush=True)
    print(f"Next, where jax is: python -m benchmarks.stablehlo_step {directory}")


def find_device() -> str:
    """Returns the name of the first GPU.

    Raises:
        UserError: TensorFlow finds none.
    """
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UserError(
            "TensorFlow finds no GPU. Look at nvidia-smi, install pip install -e '.[gpu]', or "
            "unset CUDA_VISIBLE_DEVICES; --device=cpu tries this program out, and "
            "benchmarks.training_step measures CPUs"
        )
    return tf.config.experimental.get_device_details(gpus[0])["device_name"]


def create_config(case: str) -> PretrainingConfig:
    """Returns the configuration of "size:batch:length".

    Raises:
        UserError: for a case that cannot be.
    """
    size, _, shape = case.strip().partition(":")
    batch, _, length = shape.partition(":")
    if size not in MODEL_SIZES or not (batch.isdecimal() and length.isdecimal()):
        raise UserError(f"--cases: {case!r} is not size:batch:length, such as small:128:128")
    try:
        overrides = json.loads(_OVERRIDES.value)
    except ValueError as error:
        raise UserError(f"--model_hparam_overrides is not valid JSON: {error}") from error
    config = PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        model_size=size,
        model_hparam_overrides=overrides,
        # The paper's: a third for base, a quarter for the others (Table 6).
        generator_hidden_size=1 / 3 if size == "base" else 0.25,
        max_seq_length=int(length),
        train_batch_size=int(batch),
        precision=_PRECISION.value,
        jit_compile=True,
        triton_kernels=(
            _TRITON.value and _PRECISION.value != "float32" and _DEVICE.value == "gpu"
        ),
    )
    generator_config(config)
    return config


def measure(config: PretrainingConfig) -> list[Measurement]:
    """Returns what every variant took, one after the other."""
    commands = {OURS: our_step_command(config)}
    on_gpu = _DEVICE.value == "gpu"
    if _TORCH_PYTHON.value:
        for name, mode in COMPILED_PEERS.items():
            commands[name] = huggingface_step_command(
                _TORCH_PYTHON.value,
                config,
                device="cuda" if on_gpu else "cpu",
                compile_mode=mode,
            )
    found = []
    for name, command in commands.items():
        print(f"{config.model_size}, {name}: compiling …", file=sys.stderr)
        child = StepChild(name, command, use_gpu=on_gpu)
        try:
            child.run(WARM_UP_STEPS)
            answers = [child.run(_STEPS.value) for _ in range(_ROUNDS.value)]
        finally:
            child.stop()
        found.append(summarize(name, answers, _STEPS.value))
    return found


if __name__ == "__main__":
    program.run(main)
