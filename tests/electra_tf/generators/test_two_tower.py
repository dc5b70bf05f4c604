"""The two towers: what each of them sees."""

import numpy as np
import pytest
import tensorflow as tf

from tests.electra_tf.objectives.numpy_losses import WITHOUT_DROPOUT
from tests.electra_tf.test_pretraining_model import features

pytestmark = pytest.mark.usefixtures("unfused")


def test_a_tower_sees_nothing_of_the_token_it_predicts(make_model):
    model = make_model(generator_type="two_tower")
    given = features()
    changed = {**given, "input_ids": given["input_ids"].numpy().copy()}
    changed["input_ids"][1, 7] = 39

    def logits(x: dict) -> np.ndarray:
        names = ("input_ids", "input_mask", "segment_ids")
        tensors = (tf.constant(np.asarray(x[name])) for name in names)
        return model.two_tower(*tensors, randomness=WITHOUT_DROPOUT).logits.numpy()

    difference = np.abs(logits(given) - logits(changed)).max(axis=-1)
    assert difference[1, 7] == 0
    assert np.all(difference[1, [1, 6, 8, 14]] > 0)
    assert np.all(difference[[0, 2]] == 0)
