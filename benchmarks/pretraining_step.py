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

from benchmarks.side_by_side import NUM_CORES, Child, our_command
from electra_tf import config as configs
from electra_tf.config import PretrainingConfig
from electra_tf.errors import UserError

# Ids of the published BERT vocabulary, whose words begin about 1000.
SPECIAL = {"cls": 101, "sep": 102, "mask": 103, "first_ordinary": 1000}


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
    from pretrain_data.quiet import import_tensorflow

    import_tensorflow()
    import keras
    import tensorflow as tf

    from electra_tf import metrics
    from electra_tf.optimizer import create_optimizer
    from electra_tf.pretrain_helpers import SpecialTokenIds
    from electra_tf.pretraining_model import PretrainingModel
    from electra_tf.strategies import create_strategy
    from electra_tf.train_step import TrainingSteps

    config = PretrainingConfig(**json.loads(config_json))
    keras.utils.set_random_seed(config.seed)
    strategy = create_strategy(config.strategy)
    with strategy.scope():
        special = [SPECIAL[name] for name in SpecialTokenIds._fields]
        model = PretrainingModel(config, SpecialTokenIds(*special))
        optimizer = create_optimizer(config)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        steps = TrainingSteps(
            model,
            optimizer,
            strategy,
            step,
            seed=config.seed,
            clip_norm=config.clip_norm,
            jit_compile=config.jit_compile,
        )
    gpus = tf.config.list_logical_devices("GPU")
    iterator = iter(strategy.experimental_distribute_dataset(random_batches(config)))
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        steps.run(iterator, int(line))
        values = metrics.finalize(steps.read_metrics())
        answer = Answer(
            seconds=time.perf_counter() - start,
            cpu_seconds=time.process_time() - cpu_start,
            loss=values["train/loss"],
            parameters=model.count_params(),
            max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            peak_device_bytes=(
                tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else None
            ),
        )
        print(json.dumps(dataclasses.asdict(answer)), flush=True)


def random_batches(config: PretrainingConfig) -> Any:
    """Returns an endless `tf.data.Dataset` of full rows."""
    import tensorflow as tf

    def features(index: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.random.stateless_uniform(
            [config.train_batch_size, config.max_seq_length - 2],
            seed=[config.seed, index],
            minval=SPECIAL["first_ordinary"],
            maxval=config.vocab_size,
            dtype=tf.int32,
        )
        ids = tf.pad(ids, [[0, 0], [1, 0]], constant_values=SPECIAL["cls"])
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=SPECIAL["sep"])
        mask, segments = tf.ones_like(ids), tf.zeros_like(ids)
        return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}

    return tf.data.Dataset.range(tf.int64.max).map(features).prefetch(tf.data.AUTOTUNE)


def our_step_command(config: PretrainingConfig) -> list[str]:
    """Returns the command line of a child that runs the step of `run_pretraining.py`."""
    return our_command("pretraining_step", config.to_json())


def huggingface_step_command(
    torch_python: str, config: PretrainingConfig, *, device: str = "cpu", compiled: bool = False
) -> list[str]:
    """Returns the command line of a child that runs the same step on PyTorch.

    Args:
        torch_python: a Python that has torch and transformers.
        config: of the model, its batches and its precision.
        device: "cpu" or "cuda".
        compiled: whether to use `torch.compile`.
    """
    settings = {
        "config": dataclasses.asdict(config),
        "special": SPECIAL,
        "discriminator": _torch_shape(configs.discriminator_config(config)),
        "generator": _torch_shape(configs.generator_config(config)),
        "num_threads": NUM_CORES,
        "device": device,
        "compiled": compiled,
    }
    script = pathlib.Path(__file__).with_name("huggingface_step.py")
    return [torch_python, str(script), json.dumps(settings)]


def _torch_shape(config: configs.EncoderConfig) -> dict[str, Any]:
    shape = dataclasses.asdict(config)
    shape["layer_norm_eps"] = shape.pop("layer_norm_epsilon")
    return shape
