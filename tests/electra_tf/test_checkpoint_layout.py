"""What checkpoints of each objective, generator and way of sharing hold, and in what order.

Checkpoints of earlier versions can be read as long as `checkpoint_layout.json` is met: the keys
and shapes are those of the file, and the order of the trained variables is that of the
optimizer's moments. The means of the initial weights tell in what order the layers draw their
seeds, and from what distribution (see `tests/electra_tf/test_initial_weights.py`). The entry of
a new case is what `describe` returns.
"""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.choices import EMBEDDING_SHARING, GENERATORS, OBJECTIVES
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.training.optimizer import NOT_DECAYED

LAYOUT = json.loads(
    (pathlib.Path(__file__).parents[1] / "data/checkpoint_layout.json").read_text()
)
TINY = {
    "data_dir": "-",
    "model_name": "tiny",
    "vocab_size": 12,
    "max_seq_length": 8,
    "embedding_size": 4,
    "generator_hidden_size": 0.5,
    "model_hparam_overrides": {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 32,
        "max_position_embeddings": 8,
    },
}
TWO_STAGE = {
    "objective": "two_stage",
    "embedding_sharing": "none",
    "embedding_size": 8,
    "generator_hidden_size": 1.0,
}
CASES = {
    "adversarial": {"objective": "adversarial"},
    "all_tokens_mlm": {"objective": "all_tokens_mlm"},
    "all_tokens_mlm, all": {"objective": "all_tokens_mlm", "embedding_sharing": "all"},
    "electra, all": {"embedding_sharing": "all"},
    "electra, embeddings": {},
    "electra, es": {"embedding_sharing": "es"},
    "electra, gdes": {"embedding_sharing": "gdes"},
    "electra, learned": {"masking": "learned"},
    "electra, none": {"embedding_sharing": "none"},
    "electra, span_boundary": {"span_boundary_weight": 1.0},
    "electra, token": {"embedding_sharing": "token"},
    "electra, two_tower": {"generator_type": "two_tower"},
    "electra, two_tower, none": {"generator_type": "two_tower", "embedding_sharing": "none"},
    "electra, uniform": {"generator_type": "uniform"},
    "electra, unigram": {"generator_type": "unigram"},
    "electra_15, gdes": {"objective": "electra_15", "embedding_sharing": "gdes"},
    "electric": {"objective": "electric"},
    "mlm": {"objective": "mlm"},
    "mlm, span_boundary": {"objective": "mlm", "span_boundary_weight": 1.0},
    "replace_mlm, token": {"objective": "replace_mlm", "embedding_sharing": "token"},
    "replace_mlm, uniform": {"objective": "replace_mlm", "generator_type": "uniform"},
    "sentence_contrastive": {"objective": "sentence_contrastive"},
    "two_stage": TWO_STAGE,
}


def make_config(case: str) -> PretrainingConfig:
    return PretrainingConfig.create(**{**TINY, **CASES[case]})


def describe(model: PretrainingModel, folder: pathlib.Path) -> dict:
    path = tf.train.Checkpoint(model=model).save(str(folder / "ckpt"))
    return {
        "checkpoint": {
            key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"): "x".join(map(str, shape))
            for key, shape in tf.train.list_variables(path)
            if key.startswith("model/")
        },
        "trainable_variables": [
            f"{variable.path} {np.mean(np.abs(variable.numpy())):.5f}"
            for variable in model.trainable_variables
        ],
    }


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_keep_their_keys_shapes_and_order(tmp_path, case):
    config = make_config(case)
    keras.utils.set_random_seed(config.seed)
    model = build_model(config, SpecialTokenIds(cls=2, sep=3, mask=4))
    assert describe(model, tmp_path) == LAYOUT[case]
    for variable in model.trainable_variables:
        # Biases and parameters of normalization, which are told by their names.
        is_kept = bool(NOT_DECAYED.search(variable.path))
        assert is_kept == (len(variable.shape) == 1), f"weight decay of {variable.path}"


def test_every_choice_is_among_the_cases():
    configs = [make_config(case) for case in CASES]
    assert {config.objective for config in configs} == set(OBJECTIVES)
    assert {config.generator_type for config in configs} == set(GENERATORS)
    assert {config.embedding_sharing for config in configs} == set(EMBEDDING_SHARING)
    assert set(CASES) == set(LAYOUT)
