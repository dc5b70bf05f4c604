"""Heads of transformers by their tensors: which have a counterpart here."""

import numpy as np
import pytest

from electra_tf.interop.huggingface.heads import from_huggingface_head
from electra_tf.interop.huggingface.tensor_names import normalized_name


def test_tensors_of_no_known_head_are_named():
    tensors = {"cls.seq.weight": np.zeros([2, 4]), "adapter.bias": np.zeros([2])}
    converted = from_huggingface_head(tensors, {})
    assert converted.task is None
    assert converted.arrays == {}
    assert converted.notes == ("no counterpart here: adapter.bias, cls.seq.weight",)
    assert from_huggingface_head({}, {}).notes == ()


@pytest.mark.parametrize("units", [2, 3])
def test_a_head_with_more_labels_than_two_layers_can_hold_as_one_is_left_out(units):
    """One layer of n labels takes 2 n hidden units of two."""
    tensors = {
        "classifier.dense.weight": np.eye(4, dtype=np.float32),
        "classifier.dense.bias": np.zeros(4, np.float32),
        "classifier.out_proj.weight": np.ones([units, 4], np.float32),
        "classifier.out_proj.bias": np.zeros(units, np.float32),
    }
    converted = from_huggingface_head(tensors, {})
    assert converted.task is None
    (note,) = converted.notes
    assert "only the encoder is converted, so fine-tune a new head" in note


def test_names_of_early_checkpoints_are_todays():
    name = "embeddings.LayerNorm"
    assert normalized_name(f"electra.{name}.gamma", is_bare=False) == f"electra.{name}.weight"
    assert normalized_name(f"{name}.beta", is_bare=True) == f"electra.{name}.bias"
