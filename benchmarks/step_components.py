"""The components of a pre-training step, each compiled alone, and the table of their times."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.random_run import RandomRun
from electra_tf.config.pretraining import PretrainingConfig

WHOLE = "whole step"


class Row(NamedTuple):
    """One line of the table: the time of `measured`, less that of `without` if set."""

    name: str
    measured: str
    without: str | None = None


ROWS = (
    Row(WHOLE, WHOLE),
    Row("masking", "masking"),
    Row("generator's encoder, forward", "generator forward"),
    Row("generator's encoder, backward", "generator gradient", "generator forward"),
    Row("vocabulary logits and softmax, forward", "vocabulary forward"),
    Row("vocabulary logits and softmax, backward", "vocabulary gradient", "vocabulary forward"),
    Row("- softmax cross-entropy alone, both", "softmax gradient"),
    Row("sampling (Gumbel noise, argmax)", "sampling"),
    Row("- argmax alone", "argmax"),
    Row("discriminator's encoder, forward", "encoder forward"),
    Row("discriminator's encoder, backward", "encoder gradient", "encoder forward"),
    Row("- dropout in forward", "encoder forward", "encoder forward, no dropout"),
    Row("- dropout in both", "encoder gradient", "encoder gradient, no dropout"),
    Row("embedding gradient, rows to table", "embedding gradient"),
    Row("metrics of the step", "metrics"),
    Row("clipping by the global norm", "clipping"),
    Row("optimizer", "optimizer"),
)


class Seconds(NamedTuple):
    """Time of one call."""

    wall: float
    cpu: float


def create_components(run: RandomRun, config: PretrainingConfig) -> dict[str, Callable]:
    """Returns functions without arguments, by the names that `ROWS` uses."""
    import tensorflow as tf

    from electra_tf.generators.sampling import sample_from_softmax
    from electra_tf.model.heads import softmax_cross_entropy
    from electra_tf.model.positions import gather_positions
    from electra_tf.model.randomness import Randomness
    from electra_tf.training.clipping import clip_by_global_norm

    model = run.model
    features = next(run.iterator)
    randomness = Randomness(config.seed, tf.Variable(0, dtype=tf.int64, trainable=False))
    compiled = tf.function(
        lambda: model(features, randomness=randomness), autograph=False, reduce_retracing=True
    )
    output = compiled()
    inputs = output.inputs
    key = randomness.key("benchmark")
    encoder_inputs = (inputs.input_ids, inputs.input_mask, inputs.segment_ids)
    hidden = gather_positions(
        model.generator(*encoder_inputs).sequence_output, inputs.masked_lm_positions
    )
    logits = output.masked_lm.logits
    variables = [variable.value for variable in model.trainable_variables]
    gradients = [tf.random.normal(v.shape, stddev=1e-3) for v in variables]
    table = model.electra.embeddings.word_embeddings
    slices = tf.random.normal([*inputs.input_ids.shape, table.shape[1]])

    def encode(encoder: Any, *, dropout: bool) -> Callable:
        return lambda: encoder(*encoder_inputs, key if dropout else None).sequence_output

    def vocabulary_loss() -> Any:
        scores = model.generator_predictions(hidden, table)
        return softmax_cross_entropy(scores, inputs.masked_lm_ids)

    def embedding_gradient() -> Any:
        flat = tf.reshape(slices, [-1, table.shape[1]])
        return tf.math.unsorted_segment_sum(
            flat, tf.reshape(inputs.input_ids, [-1]), table.shape[0]
        )

    encoder, generator = model.electra, model.generator
    functions = {
        "masking": lambda: model.prepare(features, randomness=randomness),
        "generator forward": encode(generator, dropout=True),
        "generator gradient": _gradient(encode(generator, dropout=True), variables),
        "vocabulary forward": vocabulary_loss,
        "vocabulary gradient": _gradient(vocabulary_loss, variables, hidden),
        "softmax gradient": _gradient(
            lambda: softmax_cross_entropy(logits, inputs.masked_lm_ids), logits
        ),
        "sampling": lambda: sample_from_softmax(logits, key),
        "argmax": lambda: tf.argmax(logits, axis=-1, output_type=tf.int32),
        "encoder forward": encode(encoder, dropout=True),
        "encoder forward, no dropout": encode(encoder, dropout=False),
        "encoder gradient": _gradient(encode(encoder, dropout=True), variables),
        "encoder gradient, no dropout": _gradient(encode(encoder, dropout=False), variables),
        "embedding gradient": embedding_gradient,
        "metrics": lambda: model.metric_sums(output),
        "clipping": lambda: clip_by_global_norm(gradients, config.clip_norm),
        "optimizer": lambda: run.optimizer.apply(gradients, model.trainable_variables),
    }
    compiled = {
        name: tf.function(function, autograph=False) for name, function in functions.items()
    }
    return {WHOLE: lambda: run.steps.run(run.iterator, 1), **compiled}


def _gradient(function: Callable, *sources: Any) -> Callable:
    """Returns a function that computes the gradients of `function`'s sum."""
    import tensorflow as tf

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x for x in tf.nest.flatten(sources) if not _is_variable(x)])
            y = tf.reduce_sum(tf.cast(function(), tf.float32))
        return [g for g in tape.gradient(y, tf.nest.flatten(sources)) if g is not None]

    return gradient


def _is_variable(x: Any) -> bool:
    return hasattr(x, "assign")


def measure(component: Callable, calls: int) -> Seconds:
    """Returns the mean time of a call, with the device's work done."""
    import tensorflow as tf

    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        component()
    tf.test.experimental.sync_devices()
    return Seconds(
        (time.perf_counter() - wall) / calls,
        (time.process_time() - cpu) / calls,
    )


def summarize(rounds: list[Mapping[str, Seconds]]) -> list[dict[str, Any]]:
    """Returns a dictionary for each of `ROWS`: milliseconds, range, CPU time and share."""
    whole = [times[WHOLE].wall for times in rounds]
    table = []
    for row in ROWS:
        zero = Seconds(0.0, 0.0)
        pairs = [
            (times[row.measured], times[row.without] if row.without else zero)
            for times in rounds
        ]
        wall = [1e3 * (first.wall - second.wall) for first, second in pairs]
        cpu = [1e3 * (first.cpu - second.cpu) for first, second in pairs]
        shares = [ms / (1e3 * step) for ms, step in zip(wall, whole, strict=True)]
        table.append(
            {
                "component": row.name,
                "milliseconds": statistics.median(wall),
                "range": [min(wall), max(wall)],
                "cpu_milliseconds": statistics.median(cpu),
                "share": statistics.median(shares),
            }
        )
    return table


def print_table(table: list[Mapping[str, Any]]) -> None:
    """Prints the rows as Markdown."""
    print("\n| | ms (range) | CPU ms | share of the step |")
    print("| --- | ---: | ---: | ---: |")
    for row in table:
        low, high = row["range"]
        print(
            f"| {row['component']} | {row['milliseconds']:.1f} ({low:.1f} – {high:.1f}) "
            f"| {row['cpu_milliseconds']:.1f} | {row['share']:.1%} |"
        )
