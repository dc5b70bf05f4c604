"""Which settings an objective refuses, and what a run of it trains.

This is known before a model is built: the objective's hyperparameters, invalid and unused
settings, stages, loss weights, and the encoders that a step runs. What an objective computes is
in its subclass `electra_tf.pretraining_model.PretrainingModel`, the base class of all
objectives.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from electra_tf.config import choices
from electra_tf.config.hyperparameters import NoHparams, parse_hparams
from electra_tf.config.model_parts import ModelPart, discriminator_part
from electra_tf.config.phases import Stage
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.resumption import KeyDefaults
from electra_tf.generators.base import Generator
from electra_tf.generators.replacements import check_replacement, warn_of_unused_sampling
from electra_tf.masking.base import masking_class, parse_masking_hparams
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


class Objective:
    """Class methods of pre-training models: those of ELECTRA, which other objectives override.

    Attributes:
        Hparams: frozen dataclass of the objective's hyperparameters (`--objective_hparams`).
        has_generator: whether the objective uses a generator; otherwise the full-size encoder
            is the masked language model.
        has_discriminator: whether the full-size encoder is trained as a discriminator.
        needs_samples: whether the loss is derived for replacements that are samples.
        generator_types: supported values of `generator_type`; None supports all.
    """

    Hparams: ClassVar[type] = NoHparams
    has_generator: ClassVar[bool] = True
    has_discriminator: ClassVar[bool] = True
    needs_samples: ClassVar[bool] = False
    generator_types: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Validates the hyperparameters for this objective.

        Raises:
            UserError: a value is invalid; the message names the flag.
            ValueError: the configuration has another objective.
        """
        wanted_class = choices.OBJECTIVES[config.objective]
        if wanted_class != f"{cls.__module__}:{cls.__qualname__}":
            raise ValueError(
                f"{cls.__qualname__} is not --objective={config.objective}, which is "
                f"{wanted_class}: call electra_tf.model_builder.build_model"
            )
        cls.parse_hparams(config)
        parse_masking_hparams(config)
        if cls.generator_types and config.generator_type not in cls.generator_types:
            raise UserError(
                f"--objective={config.objective} needs --generator_type="
                f"{' or '.join(cls.generator_types)}, not {config.generator_type}"
            )
        generator = cls.generator_class(config)
        generator.check(config)
        check_replacement(config, generator, cls.has_generator, cls.needs_samples)
        if masking_class(config).learns and generator.is_constant:
            raise UserError(
                f"--masking={config.masking} learns from the losses of a generator that reads "
                f"the text, which --generator_type={config.generator_type} does not: use "
                "--masking=strategic"
            )

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Warns of settings of a part that the model lacks, or that does not learn."""
        generator = cls.generator_class(config)
        warn_of_unused_sampling(config, cls.has_generator)
        if not cls.has_discriminator and config.disc_weight != PretrainingConfig.disc_weight:
            warn_once(
                f"--disc_weight={config.disc_weight:g} has no effect: "
                f"--objective={config.objective} has no discriminator"
            )
        cls.warn_of_untrained(config, "its metrics (disc_*)")
        masking_class(config).warn_of_untrained(parse_masking_hparams(config))
        if cls.has_generator and not generator.is_constant:
            if not cls.trains_generator(config):
                warn_once(
                    "--gen_weight=0 does not train the generator to predict tokens, so its "
                    "replacements do not become harder to detect"
                )
            if config.embedding_sharing == choices.SHARE_ALL:
                _warn_of_unused_sizes(
                    config, "--embedding_sharing=all has one encoder for both"
                )
            return
        reason = f"--generator_type={config.generator_type} has no weights"
        if not cls.has_generator:
            reason = f"--objective={config.objective} has no generator"
        _warn_of_unused_sizes(config, reason)
        if config.embedding_sharing != choices.SHARE_EMBEDDINGS:
            warn_once(f"--embedding_sharing={config.embedding_sharing} has no effect: {reason}")
        if cls.has_generator and config.gen_weight != PretrainingConfig.gen_weight:
            warn_once(f"--gen_weight={config.gen_weight:g} does not affect weights: {reason}")

    @classmethod
    def warn_of_untrained(cls, config: PretrainingConfig, outputs: str) -> None:
        """Warns of a discriminator that no loss trains, and of its outputs."""
        if cls.has_discriminator and not config.disc_weight:
            warn_once(
                f"--disc_weight=0 does not train the discriminator, so {outputs} are "
                "meaningless"
            )

    @classmethod
    def trains_generator(cls, config: PretrainingConfig) -> bool:
        """Whether a loss trains the tokens that the generator predicts."""
        return config.gen_weight > 0

    @classmethod
    def unmasked_per_masked(cls, config: PretrainingConfig) -> float | None:
        """Returns how many unmasked tokens the discriminator's loss has for each masked one.

        That is (1 - mask_prob) / mask_prob, with the masking rate of the last steps; None if
        there is no discriminator that tells real tokens from samples.
        """
        if not cls.has_discriminator:
            return None
        rate = config.mask_prob if config.mask_prob_end is None else config.mask_prob_end
        return (1 - rate) / rate

    @classmethod
    def check_loss_weights(cls, config: PretrainingConfig) -> None:
        """Raises UserError if the weights of all losses that train an encoder are 0."""
        refuse_zero_weights(cls.loss_weights(config), f"--objective={config.objective}")

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of the losses that train an encoder, by the flag of each."""
        weights = cls.generator_class(config).loss_weights(config)
        return weights | (
            {"--disc_weight": config.disc_weight} if cls.has_discriminator else {}
        )

    @classmethod
    def parse_hparams(cls, config: PretrainingConfig) -> object:
        """Returns the `Hparams` of a configuration."""
        return parse_hparams(cls.Hparams, config.objective_hparams, "--objective_hparams")

    @classmethod
    def key_defaults(cls, config: PretrainingConfig) -> KeyDefaults:
        """Returns the default values of the keys of both `*_hparams` of a configuration."""
        return {
            "objective_hparams": dataclasses.asdict(cls.Hparams()),
            "masking_hparams": dataclasses.asdict(masking_class(config).Hparams()),
        }

    @classmethod
    def generator_class(cls, config: PretrainingConfig) -> type[Generator]:
        """Returns the class selected by `--generator_type`."""
        return choices.load(choices.GENERATORS, config.generator_type)

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the encoders that a training step runs, for counting FLOPs."""
        return [*cls.generator_class(config).parts(config), discriminator_part(config)]

    @classmethod
    def stages_of(cls, config: PretrainingConfig) -> list[Stage]:
        """Returns the stages of a run with this objective."""
        return [Stage(config.objective, config.num_train_steps)]


def _warn_of_unused_sizes(config: PretrainingConfig, reason: str) -> None:
    """Warns of the size of a generator that has no encoder of its own."""
    for name in ("generator_layers", "generator_hidden_size"):
        value = getattr(config, name)
        # 1 is also the size of a shared encoder, so it needs no warning.
        if value not in (1, getattr(PretrainingConfig, name)):
            warn_once(f"--{name}={value:g} has no effect: {reason}")


def refuse_zero_weights(weights: Mapping[str, float], trained: str) -> None:
    """Raises UserError if no weight is positive.

    Args:
        weights: weights of losses, by the flag or hyperparameter that sets each.
        trained: what is trained by the losses.
    """
    if not any(weights.values()):
        zero = " and ".join(f"{name}=0" for name in weights)
        raise UserError(f"{trained} trains nothing with {zero}: pass a positive weight")
