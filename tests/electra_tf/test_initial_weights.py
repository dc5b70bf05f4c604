"""Every kernel begins with the authors' distribution.

`tf.layers.dense` of TensorFlow 1 draws kernels from Glorot's uniform distribution unless told
otherwise. The authors tell it otherwise in the Transformer layers and the hidden layers of the
pre-training heads (`modeling.create_initializer`), but not in the projection of the embeddings,
the discriminator's last layer, and all layers of the fine-tuning heads.
"""

import keras
import numpy as np
import pytest

from electra_tf.model_builder import build_model
from finetune.tasks.qa.head import QAHead
from finetune.tasks.tagging.head import TaggingHead
from finetune.tasks.text.classification import ClassificationHead
from finetune.tasks.text.regression import RegressionHead
from tests.electra_tf.test_pretraining_model import SPECIAL

HIDDEN, EMBEDDING = 512, 64
FLOAT32 = keras.DTypePolicy("float32")
DISCRIMINATOR = "discriminator_predictions"


def assert_glorot(path: str, kernel: np.ndarray) -> None:
    bound = np.sqrt(6 / sum(kernel.shape))
    assert 0.98 * bound < np.abs(kernel).max() <= bound, path
    assert np.std(kernel) == pytest.approx(bound / np.sqrt(3), rel=0.1), path


def assert_berts_normal(path: str, values: np.ndarray) -> None:
    # A normal distribution of deviation 0.02, cut at two deviations, has 0.88 of it.
    assert np.abs(values).max() <= 0.04, path
    assert np.std(values) == pytest.approx(0.88 * 0.02, rel=0.1), path


@pytest.mark.parametrize(
    "overrides",
    [{}, {"embedding_sharing": "none"}, {"objective": "electric"}],
    ids=["electra", "untied", "electric"],
)
def test_pretraining_models(make_config, overrides):
    keras.utils.set_random_seed(0)
    shape = {"hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2}
    shape |= {"intermediate_size": HIDDEN, "max_position_embeddings": 16}
    model = build_model(
        make_config(embedding_size=EMBEDDING, model_hparam_overrides=shape, **overrides),
        SPECIAL,
    )
    glorot = []
    for variable in model.trainable_variables:
        values = variable.numpy()
        if variable.path.endswith(("embeddings_project/kernel", "dense_1/kernel")):
            glorot.append(variable.path)
            assert_glorot(variable.path, values)
        elif values.ndim == 2 and values.size > 2000:
            assert_berts_normal(variable.path, values)
        elif values.ndim == 1:
            assert len(np.unique(values)) == 1, variable.path
    assert {"electra/embeddings_project/kernel", f"{DISCRIMINATOR}/dense_1/kernel"} <= {*glorot}


@pytest.mark.parametrize(
    "make_head",
    [
        lambda: ClassificationHead(HIDDEN, 3, FLOAT32, "task"),
        lambda: RegressionHead(HIDDEN, 1, FLOAT32, "task"),
        lambda: TaggingHead(HIDDEN, 9, FLOAT32, "task"),
        lambda: QAHead(HIDDEN, dtype=FLOAT32, name="task"),
        lambda: QAHead(HIDDEN, joint_prediction=False, dtype=FLOAT32, name="task"),
        lambda: QAHead(HIDDEN, answerable_uses_start_logits=False, dtype=FLOAT32, name="task"),
    ],
    ids=["classification", "regression", "tagging", "qa", "qa_plain", "qa_simple_answerable"],
)
def test_finetuning_heads(make_head):
    keras.utils.set_random_seed(0)
    for variable in make_head().trainable_variables:
        if variable.path.endswith("kernel"):
            assert_glorot(variable.path, variable.numpy())
        else:
            assert not np.any(variable), variable.path
