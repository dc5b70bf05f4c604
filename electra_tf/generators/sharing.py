"""What generator and discriminator share (paper, section 3.2), one function for each mode.

A mode takes the shapes of both encoders and returns them. To add one, write its function
and name it in `electra_tf.config.choices.EMBEDDING_SHARING`.
"""

from typing import NamedTuple

import keras

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.embeddings import DisentangledEmbeddings, Embeddings
from electra_tf.model.encoder import Encoder

DISCRIMINATOR, GENERATOR, EMBEDDINGS = "electra", "generator", "embeddings"


class Encoders(NamedTuple):
    """The two encoders of a model; one and the same where all weights are shared.

    A generator that has no encoder like the discriminator's leaves its place empty.
    """

    discriminator: Encoder
    generator: Encoder | None


class Shapes(NamedTuple):
    """What both encoders are made of."""

    discriminator: EncoderConfig
    generator: EncoderConfig
    dtype: keras.DTypePolicy
    rematerialize: bool

    def encoder(
        self, name: str, embeddings: Embeddings | DisentangledEmbeddings | None = None
    ) -> Encoder:
        """Returns the encoder that is called `name`; None gives it embeddings of its own."""
        return Encoder(
            self.discriminator if name == DISCRIMINATOR else self.generator,
            embeddings,
            rematerialize=self.rematerialize,
            dtype=self.dtype,
            name=name,
        )


def share_nothing(shapes: Shapes) -> Encoders:
    """Returns two encoders with nothing in common."""
    return Encoders(shapes.encoder(DISCRIMINATOR), shapes.encoder(GENERATOR))


def share_token_embeddings(shapes: Shapes) -> Encoders:
    """Returns two encoders with one table of words, which is the discriminator's."""
    discriminator = shapes.encoder(DISCRIMINATOR)
    with keras.name_scope(GENERATOR):
        embeddings = Embeddings(
            shapes.generator,
            discriminator.embeddings.word_embeddings,
            dtype=shapes.dtype,
            name=EMBEDDINGS,
        )
    return Encoders(discriminator, shapes.encoder(GENERATOR, embeddings))


def share_embeddings(shapes: Shapes) -> Encoders:
    """Returns two encoders with the discriminator's embeddings: the authors' default."""
    discriminator = shapes.encoder(DISCRIMINATOR)
    return Encoders(discriminator, shapes.encoder(GENERATOR, discriminator.embeddings))


def share_all(shapes: Shapes) -> Encoders:
    """Returns the discriminator's encoder twice."""
    discriminator = shapes.encoder(DISCRIMINATOR)
    return Encoders(discriminator, discriminator)


def share_disentangled(shapes: Shapes) -> Encoders:
    """Returns a generator, and a discriminator that adds to its embeddings.

    See `electra_tf.model.embeddings.DisentangledEmbeddings`.
    """
    generator = shapes.encoder(GENERATOR)
    with keras.name_scope(DISCRIMINATOR):
        embeddings = DisentangledEmbeddings(
            shapes.discriminator, generator.embeddings, dtype=shapes.dtype, name=EMBEDDINGS
        )
    return Encoders(shapes.encoder(DISCRIMINATOR, embeddings), generator)
