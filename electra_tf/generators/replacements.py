"""Replacement tokens: samples of the generator, or its most likely tokens."""

import tensorflow as tf

from electra_tf.config.choices import ARGMAX, UNIFORM
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.generators.base import Generator
from electra_tf.generators.sampling import most_likely_tokens, sample_from_softmax
from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import temperature_of
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


def replacement_tokens(
    config: PretrainingConfig,
    logits: tf.Tensor,
    disallow: tf.Tensor | None,
    randomness: Randomness,
) -> tf.Tensor:
    """Returns a token for each masked position, int32 [batch, n].

    Args:
        config: `replacement`, `temperature` and `temperature_end`.
        logits: [batch, n, vocab], logits of the generator.
        disallow: int32 [batch, n], one excluded token per position.
        randomness: random stream of sampling.
    """
    if config.replacement == ARGMAX:
        return most_likely_tokens(logits, disallow)
    return sample_from_softmax(
        logits,
        randomness.key("sampling"),
        temperature=temperature_of(config, randomness),
        disallow=disallow,
        first_example=randomness.first_example,
    )


def check_replacement(
    config: PretrainingConfig,
    generator: type[Generator],
    has_generator: bool,
    needs_samples: bool,
) -> None:
    """Raises UserError if `--replacement=argmax` or `--temperature_end` would have no effect.

    Also rejects argmax if the loss is derived for samples. Other settings without effect are
    accepted, as in the authors' code: see `warn_of_unused_sampling`.

    Args:
        config: configuration of the run.
        generator: class of its generator.
        has_generator: whether the objective uses it.
        needs_samples: whether the loss is derived for samples.
    """
    if config.temperature_end is not None and not has_generator:
        raise UserError(
            f"--temperature_end: --objective={config.objective} samples no replacements"
        )
    if config.temperature_end is not None and config.generator_type == UNIFORM:
        raise UserError(
            "--temperature_end: tokens of --generator_type=uniform are equally likely at every "
            "temperature"
        )
    if config.replacement != ARGMAX:
        return
    reason = None
    if not has_generator:
        reason = f"--objective={config.objective} replaces no tokens"
    elif needs_samples:
        reason = f"the loss of --objective={config.objective} assumes sampled tokens"
    elif generator.is_constant:
        reason = f"--generator_type={config.generator_type} always has the same one"
    elif config.temperature_end is not None:
        reason = f"--temperature_end={config.temperature_end} does not change it"
    elif config.temperature != 1.0:
        reason = f"--temperature={config.temperature} does not change it"
    if reason:
        raise UserError(f"--replacement=argmax takes the most likely token, but {reason}")


def warn_of_unused_sampling(config: PretrainingConfig, has_generator: bool) -> None:
    """Warns of sampling settings if nothing is sampled, or all tokens are equally likely."""
    temperature = f"--temperature={config.temperature:g}" if config.temperature != 1 else None
    if not has_generator:
        disallow = "--disallow_correct" if config.disallow_correct else None
        if unused := [setting for setting in (temperature, disallow) if setting]:
            have = "has" if len(unused) == 1 else "have"
            warn_once(
                f"{' and '.join(unused)} {have} no effect: --objective={config.objective} "
                "samples no replacements"
            )
    elif temperature and config.generator_type == UNIFORM:
        warn_once(
            f"{temperature} has no effect: tokens of --generator_type=uniform are equally "
            "likely at every temperature"
        )
