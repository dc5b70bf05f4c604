"""Models of a few weights."""

import keras
import pytest

from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from tests.electra_tf.objectives.numpy_losses import FACTS
from tests.electra_tf.test_pretraining_model import SPECIAL


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(**overrides), SPECIAL, FACTS)

    return make
