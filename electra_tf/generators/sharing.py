"""Weight sharing between generator and discriminator (paper, section 3.2), a function per mode.

A mode takes the shapes of both encoders and creates them. To add one, write its function and
add it to `electra_tf.config.choices.EMBEDDING_SHARING`.
"""

from typing import NamedTuple

import keras

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.embeddings import DisentangledEmbeddings, Embeddings
from electra_tf.model.encoder import Encoder

DISCRIMINATOR, GENERATOR, EMBEDDINGS = "electra", "generator", "embeddings"


class Encoders(NamedTuple):
    """The two encoders of a model; the same object if all weights are shared.

    `generator` is None for generators without an encoder of the discriminator's kind.
    """

    discriminator: Encoder
    generator: Encoder | None


class Shapes(NamedTuple):
    """Shapes and settings of both encoders."""

    discriminator: EncoderConfig
    generator: EncoderConfig
    dtype: keras.DTypePolicy
    rematerialize: bool

    def encoder(
        self, name: str, embeddings: Embeddings | DisentangledEmbeddings | None = None
    ) -> Encoder:
        """Creates the encoder `name`; without `embeddings`, it gets its own."""
        return Encoder(
            self.discriminator if name == DISCRIMINATOR else self.generator,
            embeddings,
            rematerialize=self.rematerialize,
            dtype=self.dtype,
            name=name,
        )


def share_nothing(shapes: Shapes) -> Encoders:
    """Mode `none`: creates two independent encoders."""
    return Encoders(shapes.encoder(DISCRIMINATOR), shapes.encoder(GENERATOR))


def share_token_embeddings(shapes: Shapes) -> Encoders:
    """Mode `token`: creates two encoders that share the discriminator's token embeddings."""
    discriminator = shapes.encoder(DISCRIMINATOR)
    return _with_tables(shapes, discriminator, discriminator.embeddings.word_embeddings)


def share_tables(shapes: Shapes) -> Encoders:
    """Mode `es`: creates two encoders that share the token and position embeddings.

    ELECTRA's paper shares these (section 3.2), and so does DeBERTaV3's "ES" (He et al. 2021,
    section 3.2). Segment embeddings and their LayerNorm are not shared; in the authors' code,
    they are (`share_embeddings`).
    """
    discriminator = shapes.encoder(DISCRIMINATOR)
    tables = discriminator.embeddings
    return _with_tables(
        shapes, discriminator, tables.word_embeddings, tables.position_embeddings
    )


def _with_tables(shapes: Shapes, discriminator: Encoder, *tables: keras.Variable) -> Encoders:
    """Creates a generator with the given token and position embeddings."""
    with keras.name_scope(GENERATOR):
        embeddings = Embeddings(shapes.generator, *tables, dtype=shapes.dtype, name=EMBEDDINGS)
    return Encoders(discriminator, shapes.encoder(GENERATOR, embeddings))


def share_embeddings(shapes: Shapes) -> Encoders:
    """Mode `embeddings`, the authors' default: creates two encoders with the same embeddings.

    They share the token, position and segment embeddings and the LayerNorm, but not the
    projection to the hidden size.
    """
    discriminator = shapes.encoder(DISCRIMINATOR)
    return Encoders(discriminator, shapes.encoder(GENERATOR, discriminator.embeddings))


def share_all(shapes: Shapes) -> Encoders:
    """Mode `all`: creates one encoder for both."""
    discriminator = shapes.encoder(DISCRIMINATOR)
    return Encoders(discriminator, discriminator)


def share_disentangled(shapes: Shapes) -> Encoders:
    """Mode `gdes`: creates encoders with gradient-disentangled embeddings (He et al. 2021).

    The discriminator's embeddings are those of the generator plus differences of its own, and
    only the generator updates the shared tables: see
    `electra_tf.model.embeddings.DisentangledEmbeddings`.
    """
    generator = shapes.encoder(GENERATOR)
    with keras.name_scope(DISCRIMINATOR):
        embeddings = DisentangledEmbeddings(
            shapes.discriminator, generator.embeddings, dtype=shapes.dtype, name=EMBEDDINGS
        )
    return Encoders(shapes.encoder(DISCRIMINATOR, embeddings), generator)
