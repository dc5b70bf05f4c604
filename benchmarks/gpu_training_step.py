r"""Compares one pre-training step on a CUDA GPU with Hugging Face's ELECTRA on PyTorch.

    python -m benchmarks.gpu_training_step --torch_python /path/to/env/bin/python

Needs a GPU, `pip install -e '.[gpu]'`, and with `--torch_python` a Python of an environment
that has torch for CUDA and transformers; without it only ours is measured. ELECTRA-small with
batches of 128 x 128 tokens and ELECTRA-base with 512 tokens, unless `--cases` says otherwise.

Ours is the step of `run_pretraining.py --precision=mixed_bfloat16 --jit_compile` (XLA);
theirs is compiled by `torch.compile` and runs under bfloat16 autocast. See
`benchmarks.training_step` for what the step does. Every variant is a process of its own and
has the GPU to itself: it compiles and warms up, then runs its turns. What the table calls
utilization is model FLOPs (`electra_tf/flops/counting.py`), the same for both, over the time
and the GPU's bfloat16 peak; the peak is looked up by the GPU's name
(`electra_tf/flops/gpu_peaks.py`) unless `--peak_tflops` gives it. Memory is the peak
allocation on the GPU.

`--device cpu` tries the program out where there is no GPU:

    python -m benchmarks.gpu_training_step --device cpu --cases small:2:16 --rounds 1 \
        --steps 1 --model_hparam_overrides '{"num_hidden_layers": 1}'
"""

import dataclasses
import json
import statistics
import sys

from absl import flags

from benchmarks.pretraining_step import (
    Answer,
    StepChild,
    huggingface_step_command,
    our_step_command,
)
from benchmarks.side_by_side import describe_machine, spread
from electra_tf.config.encoder import MODEL_SIZES
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.flops.counting import model_flops_per_step
from electra_tf.flops.gpu_peaks import peak_bfloat16_flops
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from flags import command_line

_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers; unset measures ours alone."
)
_DEVICE = flags.DEFINE_enum("device", "gpu", ["gpu", "cpu"], "cpu is for trying it out.")
_CASES = flags.DEFINE_list(
    "cases",
    "small:128:128,base:32:512",
    "What to measure, each as size:batch:length; less in a batch for a GPU of little memory.",
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
OURS, THEIRS = "ours, mixed_bfloat16 + XLA", "Hugging Face, bfloat16 autocast + torch.compile"


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The turns of one variant of one case.

    Attributes:
        variant: `OURS` or `THEIRS`.
        seconds_per_step: one for each round.
        peak_bytes: most that was allocated on the GPU; resident memory on a CPU.
        parameters: of generator and discriminator.
        loss: of the last step.
    """

    variant: str
    seconds_per_step: tuple[float, ...]
    peak_bytes: int
    parameters: int
    loss: float


def main() -> None:
    """Prints the table."""
    configs = [create_config(case) for case in _CASES.value]
    device = find_device() if _DEVICE.value == "gpu" else "CPU"
    peak = _PEAK_TFLOPS.value * 1e12 if _PEAK_TFLOPS.value else peak_bfloat16_flops(device)
    machine = f"{device}; {describe_machine(_TORCH_PYTHON.value)}"
    print(machine, flush=True)
    if peak is None:
        print(f"The peak of {device!r} is not known here: pass --peak_tflops for utilization.")
    found = {case: measure(config) for case, config in zip(_CASES.value, configs, strict=True)}
    print("\n" + format_table(dict(zip(found, configs, strict=True)), found, peak))
    if _JSON.value:
        content = {
            "machine": machine,
            "peak_flops": peak,
            "steps_per_round": _STEPS.value,
            "cases": {
                case: {
                    "model_flops_per_step": model_flops_per_step(config),
                    "variants": [dataclasses.asdict(m) for m in found[case]],
                }
                for case, config in zip(_CASES.value, configs, strict=True)
            },
        }
        write_atomically(_JSON.value, json.dumps(content, indent=2) + "\n")
        print(f"\nWritten to {_JSON.value}")


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
        precision="mixed_bfloat16",
        jit_compile=True,
    )
    generator_config(config)
    return config


def measure(config: PretrainingConfig) -> list[Measurement]:
    """Returns what every variant took, one after the other."""
    commands = {OURS: our_step_command(config)}
    on_gpu = _DEVICE.value == "gpu"
    if _TORCH_PYTHON.value:
        commands[THEIRS] = huggingface_step_command(
            _TORCH_PYTHON.value, config, device="cuda" if on_gpu else "cpu", compiled=True
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


def summarize(variant: str, answers: list[Answer], steps: int) -> Measurement:
    """Returns the turns of `steps` steps as one measurement."""
    last = answers[-1]
    on_device = last.peak_device_bytes
    return Measurement(
        variant,
        tuple(answer.seconds / steps for answer in answers),
        last.max_rss * 1024 if on_device is None else on_device,
        last.parameters,
        last.loss,
    )


def format_table(
    configs: dict[str, PretrainingConfig],
    found: dict[str, list[Measurement]],
    peak: float | None,
) -> str:
    """Returns rates, utilization and memory as a Markdown table.

    Args:
        configs: by case.
        found: the variants of each case, ours first.
        peak: FLOPs a second of the device, or None if it is not known.
    """
    rows: list[list[str]] = []
    for case, config in configs.items():
        ours = statistics.median(found[case][0].seconds_per_step)
        for m in found[case]:
            seconds = statistics.median(m.seconds_per_step)
            rates = [config.train_batch_size / s for s in m.seconds_per_step]
            flops = model_flops_per_step(config) / seconds
            rows.append(
                [
                    case,
                    m.variant,
                    f"{1000 * seconds:.1f}",
                    spread(rates, 1),
                    f"{flops / 1e12:.2f}",
                    "-" if peak is None else f"{100 * flops / peak:.1f} %",
                    f"{m.peak_bytes / 1e6:,.0f}",
                    f"{seconds / ours:.2f}",
                ]
            )
    header = ["size:batch:length", "", "ms/step", "sequences/s (range)"]
    header += ["model TFLOP/s", "utilization", "memory, MB", "ours is faster by"]
    return markdown_table(header, rows, text_columns=2)


if __name__ == "__main__":
    command_line.run(main)
