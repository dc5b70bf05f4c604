r"""Compares one pre-training step on the CPU with Hugging Face's ELECTRA on PyTorch.

    python -m benchmarks.training_step --torch_python /path/to/env/bin/python

`--torch_python` is the Python of an environment with torch and transformers; it need not
have anything else. Without it only ours is measured. Both sides do the same step: dynamic
masking, generator, loss at the masked positions, sampling, discriminator, backward, clipping
by the global norm, update; with dropout and tied embeddings, on random full-length rows.
Ours is the compiled step of `run_pretraining.py` and adds up its metrics as well.

Every variant is a process of its own, so that its peak memory is its own. All of them
compile and warm up first; then they are asked by turns, one at a time, so that the noise of
the machine hits all alike. A ratio is the median of the ratios within each round. The column
`cores` is CPU time over time in the worst round: about 1 of 2 means that something else ran,
which hits PyTorch's threads far harder than ours: the run is worthless. Needs Linux.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import resource
import statistics
import sys
import time
from typing import Any

from absl import flags

from benchmarks.side_by_side import NUM_CORES, Child, describe_machine, our_command
from electra_tf import config as configs
from electra_tf.config import PretrainingConfig
from electra_tf.errors import UserError
from flags import command_line

_TORCH_PYTHON = flags.DEFINE_string(
    "torch_python", None, "Python that has torch and transformers; unset measures ours alone."
)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Turns of each variant.", lower_bound=1)
_STEPS = flags.DEFINE_integer("steps", 4, "Steps a turn.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Sequences a step.", lower_bound=1)
_SEQ_LENGTH = flags.DEFINE_integer(
    "seq_length", 128, "Tokens a sequence.", lower_bound=8, upper_bound=512
)
_MODEL_SIZE = flags.DEFINE_enum(
    "model_size", "small", list(configs.MODEL_SIZES), "Size of the discriminator."
)

WARM_UP_STEPS = 2
# Ids of the published BERT vocabulary, whose words begin about 1000.
SPECIAL = {"cls": 101, "sep": 102, "mask": 103, "first_ordinary": 1000}
OURS_FLOAT32, OURS_BFLOAT16 = "ours, float32", "ours, mixed_bfloat16"
THEIRS_FLOAT32, THEIRS_BFLOAT16 = "Hugging Face, float32", "Hugging Face, bfloat16 autocast"
RATIOS = (
    (OURS_FLOAT32, THEIRS_FLOAT32),
    (OURS_BFLOAT16, THEIRS_BFLOAT16),
    (OURS_BFLOAT16, THEIRS_FLOAT32),
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a child reports of one turn; `max_rss` is in KiB."""

    seconds: float
    cpu_seconds: float
    loss: float
    parameters: int
    max_rss: int


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


def main() -> None:
    """Prints the tables."""
    torch_python = _TORCH_PYTHON.value
    print(describe_machine(torch_python), flush=True)
    commands = create_commands(torch_python)
    with contextlib.ExitStack() as stack:
        children = []
        for name, command in commands.items():
            print(f"Warming up: {name} …", file=sys.stderr)
            children.append(StepChild(name, command))
            stack.callback(children[-1].stop)
            children[-1].run(WARM_UP_STEPS)
        rounds = [
            {child.name: child.run(_STEPS.value) for child in children}
            for _ in range(_ROUNDS.value)
        ]
    print_table(create_config("float32"), rounds)
    print_ratios(rounds)


def create_config(precision: str) -> PretrainingConfig:
    """Returns the configuration of both sides; nothing is read from or written to disk."""
    return PretrainingConfig.create(
        model_name="benchmark",
        data_dir="unused",
        model_size=_MODEL_SIZE.value,
        max_seq_length=_SEQ_LENGTH.value,
        train_batch_size=_BATCH_SIZE.value,
        precision=precision,
    )


def create_commands(torch_python: str | None) -> dict[str, list[str]]:
    """Returns the command line of every variant, in the order of their turns."""
    commands = {}
    for ours, theirs, precision in (
        (OURS_FLOAT32, THEIRS_FLOAT32, "float32"),
        (OURS_BFLOAT16, THEIRS_BFLOAT16, "mixed_bfloat16"),
    ):
        config = create_config(precision)
        commands[ours] = our_command("training_step", config.to_json())
        if torch_python:
            script = pathlib.Path(__file__).with_name("huggingface_step.py")
            settings = {
                "config": dataclasses.asdict(config),
                "special": SPECIAL,
                "discriminator": _torch_shape(configs.discriminator_config(config)),
                "generator": _torch_shape(configs.generator_config(config)),
                "num_threads": NUM_CORES,
            }
            commands[theirs] = [torch_python, str(script), json.dumps(settings)]
    return commands


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
    strategy = create_strategy(config)
    with strategy.scope():
        special = [SPECIAL[name] for name in SpecialTokenIds._fields]
        model = PretrainingModel(config, SpecialTokenIds(*special))
        optimizer = create_optimizer(config)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        steps = TrainingSteps(
            model, optimizer, strategy, step, seed=config.seed, clip_norm=config.clip_norm
        )
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


def print_table(config: PretrainingConfig, rounds: list[dict[str, Answer]]) -> None:
    """Prints time, rate and memory of every variant."""
    print(
        f"\nELECTRA-{config.model_size}, {config.train_batch_size} x {config.max_seq_length}, "
        f"{config.max_predictions_per_seq} masked; {len(rounds)} rounds of {_STEPS.value} steps"
    )
    print(f"{'':<34}s/step   sequences/s (range)    cores   peak MB   parameters   loss")
    for name in rounds[0]:
        answers = [answers[name] for answers in rounds]
        seconds = [answer.seconds / _STEPS.value for answer in answers]
        rates = [config.train_batch_size / s for s in seconds]
        spread = f"({min(rates):.2f} - {max(rates):.2f})"
        cores = min(answer.cpu_seconds / answer.seconds for answer in answers)
        print(
            f"  {name:<31}{statistics.median(seconds):>7.3f}{statistics.median(rates):>8.2f} "
            f"{spread:<16}{cores:>7.2f}{answers[-1].max_rss * 1024 / 1e6:>10,.0f}"
            f"{answers[-1].parameters:>13,}{answers[-1].loss:>7.2f}"
        )


def print_ratios(rounds: list[dict[str, Answer]]) -> None:
    """Prints how many times as fast ours is."""
    if THEIRS_FLOAT32 not in rounds[0]:
        print("\nOnly ours: --torch_python was not given.")
        return
    print("\nSpeed of the first over the second, median (range) of the rounds")
    for ours, theirs in RATIOS:
        ratios = [answers[theirs].seconds / answers[ours].seconds for answers in rounds]
        print(
            f"  {f'{ours} / {theirs}':<55}{statistics.median(ratios):>6.2f}x "
            f"({min(ratios):.2f} - {max(ratios):.2f})"
        )


def _torch_shape(config: configs.EncoderConfig) -> dict[str, Any]:
    shape = dataclasses.asdict(config)
    shape["layer_norm_eps"] = shape.pop("layer_norm_epsilon")
    return shape


if __name__ == "__main__":
    command_line.run(main)
