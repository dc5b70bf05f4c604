"""Names and layouts of Hugging Face's ELECTRA tensors, and the authors'.

PyTorch stores the kernel of a linear layer as [out, in], the authors as [in, out].
"""

import re
from collections.abc import Mapping

import numpy as np

# Last parts of the authors' names that are transposed or renamed.
_KERNEL, _BIAS = "kernel", "bias"
_TABLE = re.compile(r"_embeddings$")
_OUTPUT_BIAS = "generator_predictions/output_bias"
LM_HEAD_BIAS = "generator_lm_head.bias"
LM_HEAD_WEIGHT = "generator_lm_head.weight"
WORD_EMBEDDINGS = "electra/embeddings/word_embeddings"
POSITION_EMBEDDINGS = "electra/embeddings/position_embeddings"
# The authors' scopes of the parts of a model with a single encoder.
SCOPES = ("electra/", "discriminator_predictions/", "generator_predictions/")
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}


def to_huggingface(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns tensors by their names.

    Args:
        arrays: arrays by the authors' names, all in one of `SCOPES`; the encoder of a
            generator is `electra/…`, too.
    """
    return dict(_to_huggingface(name, value) for name, value in arrays.items())


def _to_huggingface(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    if name == _OUTPUT_BIAS:
        return LM_HEAD_BIAS, value
    if _TABLE.search(name):
        return f"{_dotted(name)}.weight", value
    scope, _, last = name.rpartition("/")
    scope = _dotted(scope)
    if last == _KERNEL:
        return f"{scope}.weight", transposed(value)
    return f"{scope}.{'weight' if last == 'gamma' else 'bias'}", value


def _dotted(scope: str) -> str:
    scope = re.sub(r"/layer_(\d+)", r"/layer/\1", scope)
    return re.sub(r"/dense_1$", "/dense_prediction", scope).replace("/", ".")


def from_huggingface(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns arrays by the authors' names; the inverse of `to_huggingface`.

    Args:
        tensors: tensors of the encoder (`electra.…`) and the pre-training heads.
    """
    return dict(_from_huggingface(name, value) for name, value in tensors.items())


def _from_huggingface(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    if name == LM_HEAD_BIAS:
        return _OUTPUT_BIAS, value
    scope, _, last = name.rpartition(".")
    scope = re.sub(r"\.layer\.(\d+)", r".layer_\1", scope)
    scope = re.sub(r"\.dense_prediction$", ".dense_1", scope).replace(".", "/")
    if _TABLE.search(scope):
        return scope, value
    if last not in ("weight", "bias"):  # not a tensor of ELECTRA, but, say, a scale
        return f"{scope}/{last}", value
    if scope.endswith("LayerNorm"):
        return f"{scope}/{'gamma' if last == 'weight' else 'beta'}", value
    if last == "weight":
        return f"{scope}/{_KERNEL}", transposed(value)
    return f"{scope}/{_BIAS}", value


def transposed(kernel: np.ndarray) -> np.ndarray:
    """Returns the transpose as a contiguous array, as files need."""
    return np.ascontiguousarray(kernel.T)


def normalized_name(name: str, *, is_bare: bool) -> str:
    """Returns the name of a tensor in current versions.

    Args:
        name: such as "electra.embeddings.LayerNorm.gamma" of early PyTorch checkpoints.
        is_bare: whether the model is an `ElectraModel`, whose names lack "electra.".
    """
    for old, new in _OLD_ENDINGS.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return f"electra.{name}" if is_bare else name
