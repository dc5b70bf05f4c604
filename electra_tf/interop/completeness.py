"""Checks that the models of a checkpoint are whole, before they are converted."""

import dataclasses

from electra_tf.interop.model_checkpoint import (
    ENCODER_SCOPE,
    GENERATOR_EMBEDDINGS,
    SLOTS,
    ModelCheckpoint,
)
from electra_tf.interop.variable_names import (
    GENERATOR_NAME,
    NamedVariable,
    check_arrays,
    discriminator_head_variables,
    encoder_variables,
    masked_lm_head_variables,
    names_in,
)
from electra_tf.model.encoder import Encoder
from electra_tf.model.heads import DiscriminatorHead, MaskedLMHead
from electra_tf.model.layers import zeros_initially


def without_unknown_arrays(
    checkpoint: ModelCheckpoint, source: str
) -> tuple[ModelCheckpoint, list[str]]:
    """Removes the arrays that the description of a checkpoint does not account for.

    Examples are layers beyond the number described, and moments of other optimizers.

    Args:
        checkpoint: the checkpoint.
        source: its path, for messages.

    Returns:
        The checkpoint without them, and their names.

    Raises:
        UserError: an array of the encoder, of the generator or of a head of pre-training is
            missing, or its shape differs from the description.
    """
    with zeros_initially():
        mapping = _variables(checkpoint)
    check_arrays(checkpoint.arrays, mapping, source, compare="the sizes in its config.json")
    known = {f"{name}{slot}" for name in names_in(mapping) for slot in ("", *SLOTS)}
    unknown = [
        name
        for name in checkpoint.arrays
        if name.startswith(ENCODER_SCOPE) and name not in known
    ]
    kept = {name: value for name, value in checkpoint.arrays.items() if name not in unknown}
    return dataclasses.replace(checkpoint, arrays=kept), sorted(unknown)


def _variables(checkpoint: ModelCheckpoint) -> list[NamedVariable]:
    """Returns the variables that the parts of a checkpoint must have."""
    description = checkpoint.description
    mapping = encoder_variables(Encoder(description.encoder, dtype="float32"))
    if checkpoint.has_discriminator:
        head = DiscriminatorHead(description.encoder)
        mapping += discriminator_head_variables(head, "discriminator_predictions")
    if checkpoint.has_masked_lm:
        shape = description.encoder
        if checkpoint.has_generator_encoder:
            shape = description.generator
            # It can share some or all embeddings with the discriminator.
            has_own = f"{GENERATOR_EMBEDDINGS}word_embeddings" in checkpoint.arrays
            generator = Encoder(shape, dtype="float32")
            mapping += encoder_variables(generator, GENERATOR_NAME, embeddings=has_own)
        head = MaskedLMHead(shape, shape.embedding_size)
        mapping += masked_lm_head_variables(head, "generator_predictions")
    return mapping
