"""The published sizes, to the last parameter.

The paper rounds the discriminators to 14M, 110M and 335M (Tables 1 and 2).
KerasHub's backbones of the same weights count 13,548,800, 109,482,240 and 335,141,888: they
hold the encoder and one dense layer [hidden, hidden], as wide as that of our head.
"""

import keras
import numpy as np
import pytest

from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.model.encoder import Encoder
from electra_tf.model.heads import DiscriminatorHead


def count(layer: keras.layers.Layer) -> int:
    return sum(int(np.prod(variable.shape)) for variable in layer.trainable_variables)


@pytest.mark.parametrize(
    ("model_size", "encoder_parameters", "with_dense", "with_head"),
    [
        ("small", 13_483_008, 13_548_800, 13_549_057),
        ("base", 108_891_648, 109_482_240, 109_483_009),
        ("large", 334_092_288, 335_141_888, 335_142_913),
    ],
)
def test_discriminators(model_size, encoder_parameters, with_dense, with_head):
    config = discriminator_config(
        PretrainingConfig.create(data_dir="-", model_name="-", model_size=model_size)
    )
    assert (config.vocab_size, config.max_position_embeddings) == (30522, 512)
    # Variables of such a scope have shapes but no memory.
    with keras.StatelessScope(initialize_variables=False):
        encoder, head = Encoder(config), DiscriminatorHead(config)
    assert count(encoder) == encoder_parameters
    assert count(encoder) + count(head.dense) == with_dense
    assert count(encoder) + count(head) == with_head


@pytest.mark.parametrize(
    ("model_size", "layers", "share", "own_parameters"),
    # Encoder layers of width h hold 12 h^2 + 13 h parameters; then the projection.
    [
        ("small", 1.0, 0.25, 12 * (12 * 64**2 + 13 * 64) + 128 * 64 + 64),
        ("base", 1.0, 1 / 3, 12 * (12 * 256**2 + 13 * 256) + 768 * 256 + 256),
        ("large", 1.0, 0.25, 24 * (12 * 256**2 + 13 * 256) + 1024 * 256 + 256),
    ],
)
def test_generators(model_size, layers, share, own_parameters):
    config = PretrainingConfig.create(
        data_dir="-",
        model_name="-",
        model_size=model_size,
        generator_layers=layers,
        generator_hidden_size=share,
    )
    with keras.StatelessScope(initialize_variables=False):
        discriminator = Encoder(discriminator_config(config))
        generator = Encoder(generator_config(config), discriminator.embeddings)
    assert count(generator) - count(discriminator.embeddings) == own_parameters
