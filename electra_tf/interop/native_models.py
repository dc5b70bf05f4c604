"""Families of this project's models: pre-training models, and encoders only.

Fine-tuned models are `finetune.model_family.FINETUNING`.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import keras

from electra_tf.config.choices import SHARE_ES, SHARE_TOKEN
from electra_tf.config.encoder import EncoderConfig, encoder_config
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.config.saved_config import CONVERTED, SavedConfig, is_pretrained
from electra_tf.interop.model_checkpoint import (
    GENERATOR_EMBEDDINGS,
    TOWER_EMBEDDINGS,
    ModelCheckpoint,
    ModelDescription,
)
from electra_tf.interop.native_family import NativeFamily, RebuiltModel
from electra_tf.interop.variable_names import encoder_variables, named_variables
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.encoder import Encoder
from electra_tf.model_builder import build_model, create_model, set_stage
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.vocabulary import VOCAB_FILE, parse_vocabulary
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

# Fields of a generator that this project's hyperparameters must reproduce: its shape and what
# it computes. The others only matter in training, and are taken from the discriminator.
_SHAPE = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "hidden_act",
    "layer_norm_epsilon",
)


class PretrainingFamily(NativeFamily):
    """Models of `run_pretraining.py`."""

    def describes(self, hyperparameters: Mapping[str, Any]) -> bool:
        """Returns whether the hyperparameters have an objective."""
        return is_pretrained(hyperparameters)

    def hyperparameters(self, checkpoint: ModelCheckpoint) -> dict[str, Any] | None:
        """Returns hyperparameters that describe the model.

        Two towers imply Electric. A discriminator alone becomes a model with a uniform
        generator, which has no weights; a generator alone, a masked language model.

        Raises:
            UserError: no hyperparameters can describe the shape of the generator, or the
                objective is unknown.
        """
        description = checkpoint.description
        if description.tasks or not (checkpoint.has_discriminator or checkpoint.has_masked_lm):
            return None
        longest = description.encoder.max_position_embeddings
        length = description.trained_positions or PretrainingConfig.max_seq_length
        config = PretrainingConfig.create(
            **CONVERTED,
            max_seq_length=min(length, longest),
            **description.model_settings(),
            **_generator_settings(checkpoint),
        )
        if checkpoint.has_generator_encoder or checkpoint.has_two_towers:
            _check_generator(generator_config(config), description.generator)
        return dataclasses.asdict(config) | description.training_settings()

    def build(self, saved: SavedConfig, vocabulary: bytes | None = None) -> RebuiltModel:
        """Builds the models of the objective."""
        values = saved.hyperparameters
        known = {field.name for field in dataclasses.fields(PretrainingConfig)}
        config = PretrainingConfig.create(
            **{
                **{name: value for name, value in values.items() if name in known},
                "init_checkpoint": None,
                "precision": "float32",
                "triton_kernels": False,  # they need half precision
                "do_train": True,
                "do_eval": False,
            }
        )
        if vocabulary is None:  # special tokens affect masking only, not the weights
            model = build_model(config, SpecialTokenIds(cls=0, sep=0, mask=0))
        else:
            path = pathlib.Path(VOCAB_FILE)
            where = f"The model's {VOCAB_FILE}"
            model = create_model(config, parse_vocabulary(vocabulary, where, path))
        has_generator = model.two_tower is not None or (
            model.generator is not None and model.generator is not model.electra
        )
        description = ModelDescription(
            encoder=discriminator_config(config),
            generator=generator_config(config) if has_generator else None,
            do_lower_case=config.do_lower_case,
            strip_accents=config.strip_accents,
            hyperparameters=values,
        )
        return RebuiltModel(model, named_variables(model), description)

    def warn_of_untrained(self, model: PretrainingModel, step: int, prefix: str) -> None:
        """Warns if no stage of the run has trained the full-size encoder yet."""
        set_stage(model, step)
        if not model.has_trained_electra:
            warn_once(
                f"{prefix}: --objective={model.config.objective} has trained only the "
                "generator so far, so encoder and discriminator have random weights: continue "
                "the run"
            )


def _generator_settings(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    if not checkpoint.has_discriminator:
        if checkpoint.has_generator_encoder or checkpoint.has_two_towers:
            raise UserError(
                "The checkpoint has a generator with an encoder of its own, but no "
                "discriminator, as with --objective=replace_mlm: only its hyperparameters name "
                "the objective. Restore electra_tf.json beside the checkpoint"
            )
        return {"electra_objective": False}
    if checkpoint.has_two_towers:
        embeddings, objective = TOWER_EMBEDDINGS, {"electric_objective": True}
    elif not checkpoint.has_masked_lm:
        return {"uniform_generator": True}
    elif not checkpoint.has_generator_encoder:
        return {"untied_generator": False}
    else:
        embeddings, objective = GENERATOR_EMBEDDINGS, {}
    encoder, generator = checkpoint.description.encoder, checkpoint.description.generator
    own = checkpoint.part(embeddings)
    sharing = {"untied_generator_embeddings": bool(own)}
    if own and f"{embeddings}word_embeddings" not in own:
        has_positions = f"{embeddings}position_embeddings" in own
        sharing = {"embedding_sharing": SHARE_TOKEN if has_positions else SHARE_ES}
    return {
        **objective,
        "generator_hidden_size": generator.hidden_size / encoder.hidden_size,
        "generator_layers": generator.num_hidden_layers / encoder.num_hidden_layers,
        **sharing,
    }


def _check_generator(ours: EncoderConfig, theirs: EncoderConfig) -> None:
    differing = [
        f"{name} is {getattr(theirs, name)} instead of {getattr(ours, name)}"
        for name in _SHAPE
        if getattr(ours, name) != getattr(theirs, name)
    ]
    if differing:
        raise UserError(
            "This project's hyperparameters cannot describe the shape of the generator, which "
            "must have heads of 64 units, an intermediate size of four times the hidden size, "
            "embeddings as wide as the discriminator's (or as its hidden layers, if unshared), "
            "and the discriminator's activation, epsilon and numbers of tokens, positions and "
            f"segments. {'; '.join(differing)}. Convert only the discriminator"
        )


def saved_encoder(hyperparameters: Mapping[str, Any]) -> EncoderConfig:
    """Returns the shape of the encoder that saved hyperparameters describe."""
    return encoder_config(
        hyperparameters["model_size"],
        hyperparameters.get("model_hparam_overrides") or {},
        embedding_size=hyperparameters["embedding_size"],
        vocab_size=hyperparameters["vocab_size"],
    )


class _EncoderModel(keras.Model):
    """An encoder with the attribute name that it has in all models of this project."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.electra = Encoder(config, dtype="float32", name="electra")
        self.built = True


class EncoderFamily(NativeFamily):
    """The encoders of models of any kind, without their heads.

    It must be the last family, because it matches every model.
    """

    is_partial = True

    def describes(self, hyperparameters: Mapping[str, Any]) -> bool:
        """Returns whether the hyperparameters have a model size."""
        return "model_size" in hyperparameters

    def hyperparameters(self, checkpoint: ModelCheckpoint) -> dict[str, Any] | None:
        """Returns None: it does not write checkpoints of other formats."""
        return None

    def build(self, saved: SavedConfig, vocabulary: bytes | None = None) -> RebuiltModel:
        """Builds the encoder."""
        values = saved.hyperparameters
        encoder = saved_encoder(values)
        model = _EncoderModel(encoder)
        description = ModelDescription(
            encoder=encoder,
            do_lower_case=values["do_lower_case"],
            strip_accents=values["strip_accents"],
            hyperparameters=values,
        )
        return RebuiltModel(model, encoder_variables(model.electra), description)


PRETRAINING = PretrainingFamily()
ENCODER_ONLY = EncoderFamily()
