"""Evaluation on held-out text: its batches, the evaluator, and the result files."""

import json
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model import metrics
from electra_tf.model.compilation import compile_ahead, largest_divisor
from electra_tf.model.randomness import Randomness
from electra_tf.model.token_scores import (
    WITHIN_TOKEN_AUC,
    ShownSentences,
    TokenScores,
    WithinTokenAUC,
    score_keys,
    shown_sentences,
)
from electra_tf.pretraining.records import PretrainingRecords, batches_of
from electra_tf.text.framing import INPUT_IDS
from electra_tf.training.distribution.cores import has_only_cpus
from electra_tf.training.distribution.shards import DataShard
from electra_tf.training.distribution.strategies import distribute_batches, iterate
from electra_tf.training.gradients import TrainableModel, refuse_reserved_metrics
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically

# A separate seed, so every evaluation uses the same masks, unless masking is learned.
EVALUATION_SEED = 0x5EED
NUM_SHOWN_SENTENCES = 4
_TERM = "term/"


class EvaluatedModel(TrainableModel, Protocol):
    """A trainable model whose discriminator, if it has one, is evaluated by token."""

    def token_scores(self, output: Any) -> TokenScores | None:
        """Returns the discriminator's scores of a batch; None without a discriminator."""


class HeldOutResult(NamedTuple):
    """Result of an evaluation.

    Attributes:
        values: the metrics.
        sentences: sentences of the first batch; None without a discriminator.
    """

    values: dict[str, float]
    sentences: ShownSentences | None


class _BatchResult(NamedTuple):
    """Sums of the metrics, and the discriminator's scores (None without one).

    They cover some rows of a replica, all of its rows, or all replicas.
    """

    sums: metrics.MetricSums
    keys: tf.Tensor | None
    sentences: ShownSentences | None


class HeldOutEvaluator:
    """Evaluates the objective on batches, without dropout and with fixed masks.

    With `--masking=learned`, the masks depend on the trained weights.

    Args:
        model: the model.
        strategy: distribution strategy.
        max_side_by_side: maximum number of parts of a batch to compute in parallel.
    """

    def __init__(
        self,
        model: EvaluatedModel,
        strategy: tf.distribute.Strategy,
        max_side_by_side: int = 1,
    ) -> None:
        self._model = model
        self._max_side_by_side = max_side_by_side
        self._strategy = strategy
        self._coefficients: dict[str, float] = {}
        self._run = tf.function(self._run_batch, autograph=False)
        self._compiles_ahead = has_only_cpus()

    def run(self, batches: Iterable, num_batches: int) -> HeldOutResult:
        """Evaluates at most `num_batches` batches.

        Among the metrics, `loss` is the objective and `<term>_loss` each of its terms, without
        dropout.

        Raises:
            UserError: there is no batch.
        """
        totals: metrics.MetricSums = {}
        sentences: ShownSentences | None = None
        within_token = WithinTokenAUC()
        keys = None
        for index, features in enumerate(iterate(batches)):
            if index == num_batches:
                break
            inputs = features, tf.constant(index, tf.int64)
            if self._compiles_ahead:
                compile_ahead(self._run, *inputs)
                self._compiles_ahead = False
            result = self._run(*inputs)
            sums = result.sums
            totals = tf.nest.map_structure(tf.add, totals, sums) if totals else sums
            if index == 0 and result.sentences is not None:
                sentences = tf.nest.map_structure(
                    lambda rows: rows.numpy()[:NUM_SHOWN_SENTENCES], result.sentences
                )
            # One batch behind, so that a GPU computes while the host copies.
            if keys is not None:
                within_token.add(keys.numpy())
            keys = result.keys
        if not totals:
            raise UserError("The held-out records have no batch to evaluate on")
        values = metrics.finalize({name: total.numpy() for name, total in totals.items()})
        terms = {name: values.pop(f"{_TERM}{name}") for name in self._coefficients}
        loss = sum(self._coefficients[name] * mean for name, mean in terms.items())
        losses = {f"{name}_loss": mean for name, mean in terms.items()}
        if keys is not None:
            within_token.add(keys.numpy())
            values[WITHIN_TOKEN_AUC] = within_token.result()
        return HeldOutResult({"loss": loss, **losses, **values}, sentences)

    def _run_batch(self, features: dict[str, tf.Tensor], index: tf.Tensor) -> _BatchResult:
        result = self._strategy.run(self._replica_batch, args=(features, index))
        sums = {
            name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
            for name, value in result.sums.items()
        }
        if result.keys is None:
            return _BatchResult(sums, None, None)
        keys, sentences = (
            tf.nest.map_structure(lambda rows: self._strategy.gather(rows, axis=0), each)
            for each in (result.keys, result.sentences)
        )
        return _BatchResult(sums, keys, sentences)

    def _replica_batch(self, features: dict[str, tf.Tensor], index: tf.Tensor) -> _BatchResult:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        ids = features[INPUT_IDS]
        first_example = replica * tf.shape(ids)[0]
        count = largest_divisor(ids.shape[0], self._max_side_by_side)
        if count == 1:
            return self._evaluate(features, index, first_example)
        rows = ids.shape[0] // count
        evaluate = tf.function(self._evaluate, autograph=False)  # traced once for all parts
        parts = [
            evaluate(
                {name: x[i * rows : (i + 1) * rows] for name, x in features.items()},
                index,
                first_example + i * rows,
            )
            for i in range(count)
        ]
        sums, keys, sentences = zip(*parts, strict=True)
        summed = tf.nest.map_structure(lambda *values: tf.add_n(values), *sums)
        if keys[0] is None:
            return _BatchResult(summed, None, None)
        joined = (
            tf.nest.map_structure(lambda *values: tf.concat(values, axis=0), *each)
            for each in (keys, sentences)
        )
        return _BatchResult(summed, *joined)

    def _evaluate(
        self, features: dict[str, tf.Tensor], index: tf.Tensor, first_example: tf.Tensor
    ) -> _BatchResult:
        randomness = Randomness(
            seed=EVALUATION_SEED, step=index, first_example=first_example, dropout=False
        )
        batch = self._model.prepare(features, randomness=randomness)
        output = self._model.forward(batch, randomness=randomness)
        sums = self._model.metric_sums(output)
        refuse_reserved_metrics(output.terms, sums)
        for name, term in output.terms.items():
            self._coefficients[name] = term.coefficient
            sums[_TERM + name] = tf.stack([term.loss * term.weight, term.weight])
        scores = self._model.token_scores(output)
        if scores is None:
            return _BatchResult(sums, None, None)
        sentences = shown_sentences(scores, NUM_SHOWN_SENTENCES)
        return _BatchResult(sums, score_keys(scores), sentences)


def held_out_batches(
    config: PretrainingConfig, records: PretrainingRecords, strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Returns the batches of held-out records, from the first one each time they are read."""

    def read(shard: DataShard) -> tf.data.Dataset:
        return batches_of(
            records,
            first_example=0,
            batch_size=config.eval_batch_size,
            seq_length=config.max_seq_length,
            shard=shard,
        )

    with records.locating_damage(config.max_seq_length):
        return distribute_batches(strategy, read)


def evaluate_batches(
    config: PretrainingConfig,
    evaluator: HeldOutEvaluator,
    records: PretrainingRecords,
    batches: tf.distribute.DistributedDataset,
) -> HeldOutResult:
    """Evaluates up to `num_eval_steps` of the batches of held-out records."""
    with records.locating_damage(config.max_seq_length):
        return evaluator.run(batches, config.num_eval_steps)


def write_results(
    values: Mapping[str, float | int],
    *,
    results_txt: str,
    results_json: str,
    results_pkl: str | None = None,
) -> list[str]:
    """Writes metrics as text, JSON and optionally a pickle; returns the paths.

    Each file is written atomically. Values that are not finite are null in JSON.
    """
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    write_atomically(results_txt, lines)
    finite = {k: v if np.isfinite(v) else None for k, v in values.items()}
    write_atomically(results_json, json.dumps(finite, indent=2) + "\n")
    written = [results_txt, results_json]
    if results_pkl:
        write_atomically(results_pkl, pickle.dumps(dict(values)))
        written.append(results_pkl)
    return written
