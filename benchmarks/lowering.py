"""Lowers the compiled pre-training step to StableHLO, for machines without TensorFlow.

    python -m benchmarks.gpu_training_step --lower DIR

calls this. The step is the one that `--jit_compile` runs: masking, generator, sampling,
discriminator, backward pass, clipping, optimizer and the sums of the metrics. TensorFlow turns
its variables into arguments and their new values into outputs that take the arguments' memory.
"""

import gzip
import json
import pathlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.lowered_case import (
    BATCHES_FILE,
    CASE_FILE,
    FORWARD,
    NUM_BATCHES,
    STEP,
    Argument,
    LoweredCase,
    Program,
    read_batches,
)
from benchmarks.random_run import RandomRun, create_run, random_batches, without_kernels
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import PASSES, model_flops_per_step
from electra_tf.inference.export.stablehlo import lower_function
from electra_tf.model.gpu.calls import gpu_kernels
from electra_tf.model.kernels import compiled_as_a_whole
from electra_tf.model.randomness import Randomness
from electra_tf.text.framing import ENCODER_INPUTS
from electra_tf.util.files import write_atomically


def lower_case(
    name: str,
    config: PretrainingConfig,
    folder: pathlib.Path,
    *,
    num_checked_steps: int = 0,
    kernel_capability: int | None = None,
) -> LoweredCase:
    """Writes the files of a case; see `benchmarks.lowered_case`.

    Args:
        name: "size:batch:length".
        config: of the model and its batches.
        folder: of this case.
        num_checked_steps: steps that TensorFlow runs here to write down their losses.
        kernel_capability: compute capability of a GPU that the programs are for, with Triton's
            kernels, times 10; the losses are those without kernels. None is without.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CASE_FILE).unlink(missing_ok=True)
    batches = random_batches(config).take(NUM_BATCHES)
    features = {name: [] for name in ENCODER_INPUTS}
    for batch in batches.as_numpy_iterator():
        for feature, array in batch.items():
            features[feature].append(array)
    np.savez_compressed(folder / BATCHES_FILE, **features)
    shape = [config.train_batch_size, config.max_seq_length]
    specs = [tf.TensorSpec(shape, tf.int32) for _ in ENCODER_INPUTS]

    run = create_run(config, kernel_capability=kernel_capability)
    flops = model_flops_per_step(config)
    step = step_function(run)
    programs: dict[str, Program] = {}
    variables: list[tf.Variable] = []
    for program, function, model_flops, num_results in (
        (FORWARD, forward_function(run, kernel_capability), flops // PASSES, 1),
        (STEP, step, flops, 2),
    ):
        lowered = lower_function(function, *specs)
        variables = lowered.variables
        file = f"{program}.stablehlo.gz"
        write_atomically(folder / file, gzip.compress(lowered.code, mtime=0))
        programs[program] = Program(
            file=file,
            arguments=tuple(describe_variable(variable) for variable in variables),
            num_results=num_results,
            aliases=tuple(lowered.aliases.items()),
            model_flops=model_flops,
        )
    losses = None
    if num_checked_steps:
        for variable, argument in zip(variables, programs[STEP].arguments, strict=True):
            variable.assign(argument.initial_value())
        if kernel_capability is not None:
            step = step_function(without_kernels(run, config))
        losses = run_steps(step, read_batches(folder), num_checked_steps)
    case = LoweredCase(
        name=name,
        config=json.loads(config.to_json()),
        parameters=run.model.count_params(),
        tensorflow=tf.__version__,
        programs=programs,
        losses=losses,
    )
    case.write(folder)
    return case


def step_function(run: RandomRun) -> Callable:
    """Returns the compiled function of `ENCODER_INPUTS` that updates the model.

    It returns the loss, and the sums of all metrics as one vector.
    """

    @tf.function(jit_compile=True, autograph=False)
    def step(*features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        sums = run.steps.replica_step(dict(zip(ENCODER_INPUTS, features, strict=True)))
        run.step.assign_add(1)
        total, count = tf.unstack(sums["train/loss"])
        flat = [tf.reshape(tf.cast(value, tf.float32), [-1]) for value in sums.values()]
        return total / count, tf.concat(flat, axis=0)

    return step


def forward_function(run: RandomRun, kernel_capability: int | None = None) -> Callable:
    """Returns the compiled function of `ENCODER_INPUTS` that returns the loss, with dropout."""

    @tf.function(jit_compile=True, autograph=False)
    def forward(*features: tf.Tensor) -> tf.Tensor:
        batch = dict(zip(ENCODER_INPUTS, features, strict=True))
        randomness = Randomness(run.seed, run.step)
        with compiled_as_a_whole(), gpu_kernels(kernel_capability):
            prepared = run.model.prepare(batch, randomness=randomness)
            terms = run.model.forward(prepared, randomness=randomness).terms.values()
        return tf.add_n(
            [t.coefficient * t.loss * (t.weight if t.summed else 1.0) for t in terms]
        )

    return forward


def describe_variable(variable: tf.Variable) -> Argument:
    """Returns a variable as an argument; random weights keep their standard deviation only."""
    value = variable.numpy()
    known: dict[str, Any] = {"name": variable.name, "shape": value.shape}
    known["dtype"] = value.dtype.name
    if np.all(value == value.flat[0]):
        return Argument(**known, value=value.flat[0].item())
    if not np.issubdtype(value.dtype, np.floating):
        raise ValueError(f"{variable.name} is neither constant nor a float, so not drawn")
    seed = zlib.crc32(variable.name.encode())
    return Argument(**known, stddev=float(value.std()), seed=seed)


def run_steps(
    step: Callable, batches: list[list[np.ndarray]], num_steps: int
) -> tuple[float, ...]:
    """Returns the losses of the first steps, with the batches over and over."""
    losses = []
    for index in range(num_steps):
        batch = [tf.constant(array) for array in batches[index % len(batches)]]
        losses.append(float(step(*batch)[0]))
    return tuple(losses)
