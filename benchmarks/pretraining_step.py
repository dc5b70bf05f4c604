"""The pre-training step that benchmarks time, ours and PyTorch's, in processes of their own.

Both run on random full-length rows; nothing is read from or written to disk.
"""

import dataclasses
import json
import math
import pathlib
import resource
import sys
import time
from typing import Any

from benchmarks.random_run import SPECIAL, create_run
from benchmarks.side_by_side import NUM_CORES, Child, our_command
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a child reports of one turn.

    Attributes:
        seconds, cpu_seconds: of all steps of the turn.
        loss: of the turn, or of its last step.
        parameters: of all models.
        max_rss: largest resident memory so far, KiB.
        peak_device_bytes: most that was allocated on the GPU so far; None without one.
    """

    seconds: float
    cpu_seconds: float
    loss: float
    parameters: int
    max_rss: int
    peak_device_bytes: int | None = None


class StepChild(Child):
    """A process that runs training steps when it is asked to."""

    def run(self, num_steps: int) -> Answer:
        """Runs the steps and returns when they are done.

        Raises:
            UserError: the process has ended, or the loss is not finite.
        """
        answer = Answer(**self.ask(str(num_steps)))
        if not math.isfinite(answer.loss):
            raise UserError(f"{self.name}: the loss is {answer.loss}")
        return answer


def serve(config_json: str) -> None:
    """Is one of our children: runs as many steps as each line of standard input says."""
    from electra_tf.util.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    from electra_tf.model import metrics
    from electra_tf.training.distribution.cores import share_cores
    from electra_tf.training.distribution.gpus import prepare_kernels

    config = PretrainingConfig(**json.loads(config_json))
    side_by_side = share_cores(config, discriminator_config(config).hidden_size)
    capability = prepare_kernels() if config.triton_kernels else None
    run = create_run(config, kernel_capability=capability, max_side_by_side=side_by_side)
    gpus = tf.config.list_logical_devices("GPU")
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        run.steps.run(run.iterator, int(line))
        values = metrics.finalize(run.steps.read_metrics())
        answer = Answer(
            seconds=time.perf_counter() - start,
            cpu_seconds=time.process_time() - cpu_start,
            loss=values["train/loss"],
            parameters=run.model.count_params(),
            max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            peak_device_bytes=(
                tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else None
            ),
        )
        print(json.dumps(dataclasses.asdict(answer)), flush=True)


# Ways of the peer on a GPU, by the name of the variant.
COMPILED_PEERS = {
    "Hugging Face, torch.compile": "default",
    "Hugging Face, torch.compile, CUDA graphs": "reduce-overhead",
}


def our_step_command(config: PretrainingConfig) -> list[str]:
    """Returns the command line of a child that runs the step of `run_pretraining.py`."""
    return our_command("pretraining_step", config.to_json())


def huggingface_step_command(
    torch_python: str,
    config: PretrainingConfig,
    *,
    device: str = "cpu",
    compile_mode: str | None = None,
    part: str = "step",
) -> list[str]:
    """Returns the command line of a child that runs the same step on PyTorch.

    Args:
        torch_python: a Python that has torch and transformers.
        config: of the model, its batches and its precision.
        device: "cpu" or "cuda".
        compile_mode: of `torch.compile`: "default", or "reduce-overhead" for CUDA graphs;
            None is eager mode.
        part: "step", or "forward" for the loss alone, without gradients.
    """
    settings = {
        "config": dataclasses.asdict(config),
        "special": SPECIAL,
        "discriminator": _torch_shape(discriminator_config(config)),
        "generator": _torch_shape(generator_config(config)),
        "num_threads": NUM_CORES,
        "device": device,
        "compile_mode": compile_mode,
        "part": part,
    }
    script = pathlib.Path(__file__).with_name("huggingface_step.py")
    return [torch_python, str(script), json.dumps(settings)]


def _torch_shape(config: EncoderConfig) -> dict[str, Any]:
    shape = dataclasses.asdict(config)
    shape["layer_norm_eps"] = shape.pop("layer_norm_epsilon")
    return shape
