"""Evaluates generator and discriminator on held-out text."""

import json
import pickle
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.randomness import Randomness
from electra_tf.training.step import TrainableModel
from electra_tf.util.files import write_atomically

# A separate seed, so every evaluation uses the same masks.
EVALUATION_SEED = 0x5EED
_TERM = "term/"


class HeldOutEvaluator:
    """Evaluates the objective on batches, without dropout and with fixed masks."""

    def __init__(self, model: TrainableModel, strategy: tf.distribute.Strategy) -> None:
        self._model = model
        self._strategy = strategy
        self._coefficients: dict[str, float] = {}
        self._run = tf.function(self._run_batch, autograph=False)

    def run(self, batches: Iterable, num_batches: int) -> dict[str, float]:
        """Returns the metrics of at most `num_batches` batches.

        `loss` is the objective, and `<term>_loss` each of its terms, without dropout.
        """
        totals: metrics.MetricSums = {}
        for index, features in enumerate(batches):
            if index == num_batches:
                break
            sums = self._run(features, tf.constant(index, tf.int64))
            totals = tf.nest.map_structure(tf.add, totals, sums) if totals else sums
        values = metrics.finalize({name: total.numpy() for name, total in totals.items()})
        terms = {name: values.pop(f"{_TERM}{name}") for name in self._coefficients}
        loss = sum(self._coefficients[name] * mean for name, mean in terms.items())
        losses = {f"{name}_loss": mean for name, mean in terms.items()}
        return {"loss": loss, **losses, **values}

    def _run_batch(
        self, features: dict[str, tf.Tensor], index: tf.Tensor
    ) -> metrics.MetricSums:
        per_replica = self._strategy.run(self._replica_batch, args=(features, index))
        return {
            name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
            for name, value in per_replica.items()
        }

    def _replica_batch(
        self, features: dict[str, tf.Tensor], index: tf.Tensor
    ) -> metrics.MetricSums:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        randomness = Randomness(
            seed=EVALUATION_SEED,
            step=index,
            first_example=replica * tf.shape(features["input_ids"])[0],
            dropout=False,
        )
        batch = self._model.prepare(features, randomness=randomness)
        output = self._model.forward(batch, randomness=randomness)
        sums = self._model.metric_sums(output)
        for name, term in output.terms.items():
            self._coefficients[name] = term.coefficient
            sums[_TERM + name] = tf.stack([term.loss * term.weight, term.weight])
        return sums


def write_results(
    values: Mapping[str, float | int],
    *,
    results_txt: str,
    results_json: str,
    results_pkl: str | None = None,
) -> list[str]:
    """Writes metrics as text, JSON and optionally a pickle; returns the paths."""
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    write_atomically(results_txt, lines)
    finite = {k: v if np.isfinite(v) else None for k, v in values.items()}
    write_atomically(results_json, json.dumps(finite, indent=2) + "\n")
    written = [results_txt, results_json]
    if results_pkl:
        write_atomically(results_pkl, pickle.dumps(dict(values)))
        written.append(results_pkl)
    return written
