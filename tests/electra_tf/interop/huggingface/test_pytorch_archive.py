"""Pickles that may make tensors, and nothing else."""

import collections
import pickle
import zipfile

import numpy as np
import pytest

from electra_tf.interop.huggingface.pytorch_archive import read_pytorch_archive
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.models import HUGGINGFACE_DATA


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments) -> None:
        self.made = function, arguments

    def __reduce__(self):
        return self.made


def write(path, content, storages=()) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", content)
        for key, value in storages:
            archive.writestr(f"model/data/{key}", value)
    return str(path)


def test_tensors_of_a_file_that_pytorch_wrote():
    tensors = read_pytorch_archive(str(HUGGINGFACE_DATA / "pytorch_bin/pytorch_model.bin"))
    positions = tensors["electra.embeddings.position_ids"]
    assert positions.dtype == np.int64
    np.testing.assert_array_equal(positions, np.arange(16)[None])
    assert tensors["electra.encoder.layer.1.intermediate.dense.weight"].shape == (96, 24)


@pytest.mark.parametrize("function", [print, eval, __import__])
def test_nothing_else_is_called(tmp_path, function, capsys):
    content = pickle.dumps(collections.OrderedDict(a=Call(function, "1")))
    with pytest.raises(UserError, match="asks for builtins"):
        read_pytorch_archive(write(tmp_path / "evil.bin", content))
    assert capsys.readouterr().out == ""


def test_other_files_say_how_to_convert_them(tmp_path):
    (tmp_path / "old.bin").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UserError, match=r"cannot be read without PyTorch.*safetensors\.torch"):
        read_pytorch_archive(str(tmp_path / "old.bin"))
    with pytest.raises(UserError, match="not a state dictionary"):
        read_pytorch_archive(write(tmp_path / "list.bin", pickle.dumps([1])))
    with pytest.raises(UserError, match="cannot be read without PyTorch"):
        read_pytorch_archive(write(tmp_path / "cut.bin", pickle.dumps({"a": 1})[:-3]))
