"""The compiled training step: forward, backward, clip, update, several steps a call."""

import numpy as np
import tensorflow as tf

from electra_tf import metrics
from electra_tf.optimizer import ElectraAdam, clip_by_global_norm
from electra_tf.outputs import LossTerm, Randomness, TrainableModel


class SumsOnDevice:
    """Sums of metrics in variables, made when a step is first traced and shapes are known."""

    def __init__(self) -> None:
        self._variables: dict[str, tf.Variable] = {}

    def add(self, sums: metrics.Sums) -> None:
        """Adds the sums of one step; call it in cross-replica context."""
        for name, value in sums.items():
            if name not in self._variables:
                with tf.init_scope():
                    zeros = tf.zeros(value.shape, tf.float32)
                    self._variables[name] = tf.Variable(zeros, trainable=False)
            self._variables[name].assign_add(value)

    def read_and_reset(self) -> dict[str, np.ndarray]:
        """Returns the sums since the last call."""
        values = {name: variable.numpy() for name, variable in self._variables.items()}
        for variable in self._variables.values():
            variable.assign(tf.zeros_like(variable))
        return values


class TrainingSteps:
    """Trains a model on a distributed iterator; pre-training and fine-tuning both do.

    Create it inside `strategy.scope()`.

    Args:
        model: returns loss terms for a batch.
        optimizer: built for the model's trainable variables.
        strategy: over whose replicas the batches are spread.
        step: int64 variable that counts finished updates.
        seed: integer or integer variable; every random choice follows from it and the step.
        clip_norm: gradients are scaled down to this global norm.
        jit_compile: compile the whole replica step with XLA.
    """

    def __init__(
        self,
        model: TrainableModel,
        optimizer: ElectraAdam,
        strategy: tf.distribute.Strategy,
        step: tf.Variable,
        *,
        seed: int | tf.Variable,
        clip_norm: float,
        jit_compile: bool = False,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._strategy = strategy
        self._step = step
        self._seed = seed
        self._clip_norm = clip_norm
        self._sums = SumsOnDevice()
        self._last_terms: dict[str, tf.Variable] = {}
        self._replica_function = self._replica_step
        if jit_compile:
            self._replica_function = tf.function(
                self._replica_step, jit_compile=True, autograph=False
            )
        self._run = tf.function(self._run_steps, autograph=False)

    def run(self, iterator: tf.data.Iterator, num_steps: int) -> None:
        """Runs up to `num_steps` updates; stops after one with a non-finite loss or norm."""
        self._run(iterator, tf.constant(num_steps, tf.int32))

    def read_metrics(self) -> dict[str, np.ndarray]:
        """Returns the sums behind the metrics since the last call."""
        return self._sums.read_and_reset()

    def non_finite_terms(self) -> list[str]:
        """Names the terms of the last update that were not finite."""
        return [
            name for name, value in self._last_terms.items() if not np.isfinite(value.numpy())
        ]

    def _run_steps(self, iterator: tf.data.Iterator, num_steps: tf.Tensor) -> None:
        def body(done: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            per_replica = self._strategy.run(self._replica_function, args=(next(iterator),))
            sums = {
                name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                for name, value in per_replica.items()
            }
            terms = {name: sums[name][0] / sums[name][1] for name in self._watched(sums)}
            self._sums.add(sums)
            self._remember(terms)
            self._step.assign_add(1)
            finite = tf.reduce_all(tf.math.is_finite(tf.stack(list(terms.values()))))
            return done + 1, finite

        tf.while_loop(
            lambda done, finite: (done < num_steps) & finite,
            body,
            (tf.constant(0), tf.constant(True)),
            parallel_iterations=1,
        )

    def _replica_step(self, features: dict[str, tf.Tensor]) -> metrics.Sums:
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        batch_size = tf.shape(features["input_ids"])[0]
        randomness = Randomness(
            seed=self._seed,
            step=self._step,
            first_example=replica * batch_size,
            replica=replica,
        )
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            output = self._model(features, randomness=randomness)
            shares = _shares_of_tokens(output.terms, context)
            total = tf.add_n(
                [t.coefficient * t.loss * shares[name] for name, t in output.terms.items()]
            )
        gradients = tape.gradient(total, [variable.value for variable in variables])
        # A variable that the objective does not reach is left alone, not decayed.
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        gradients = [tf.convert_to_tensor(g) for g, _ in pairs]
        replicas = context.num_replicas_in_sync
        if replicas > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, norm = clip_by_global_norm(gradients, self._clip_norm)
        # Keras's optimizers sum over replicas what they are given.
        gradients = [g / replicas for g in gradients] if replicas > 1 else gradients
        self._optimizer.apply(gradients, [v for _, v in pairs])

        once = 1.0 / replicas  # so that the sum over replicas counts a step once
        named = {"loss": total, **{f"{n}_loss": t.loss for n, t in output.terms.items()}}
        weights = {f"{n}_loss": shares[n] for n in output.terms}
        sums = {
            f"train/{name}": tf.stack([value * weights.get(name, 1.0), once])
            for name, value in named.items()
        }
        sums["train/gradient_norm"] = tf.stack([norm * once, once])
        return {**sums, **self._model.metric_sums(output)}

    @staticmethod
    def _watched(sums: metrics.Sums) -> list[str]:
        return [name for name in sums if name.startswith("train/")]

    def _remember(self, terms: dict[str, tf.Tensor]) -> None:
        for name, value in terms.items():
            if name not in self._last_terms:
                with tf.init_scope():
                    self._last_terms[name] = tf.Variable(0.0, trainable=False)
            self._last_terms[name].assign(value)


def _shares_of_tokens(
    terms: dict[str, LossTerm], context: tf.distribute.ReplicaContext
) -> dict[str, tf.Tensor | float]:
    """Returns the share of each term's tokens that this replica holds."""
    if context.num_replicas_in_sync == 1:
        return dict.fromkeys(terms, 1.0)
    weights = {name: term.weight for name, term in terms.items()}
    totals = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
    return {name: weights[name] / tf.maximum(totals[name], 1e-6) for name in terms}
