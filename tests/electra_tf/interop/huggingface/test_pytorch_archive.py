"""Pickles that may make tensors, and nothing else."""

import collections
import contextlib
import pathlib
import pickle
import resource
import zipfile
from typing import Any, NamedTuple

import ml_dtypes
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
    with pytest.raises(UserError, match="refers to builtins"):
        read_pytorch_archive(write(tmp_path / "evil.bin", content))
    assert capsys.readouterr().out == ""


def test_other_files_say_how_to_convert_them(tmp_path):
    (tmp_path / "old.bin").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(UserError, match=r"cannot be read without PyTorch.*safetensors\.torch"):
        read_pytorch_archive(str(tmp_path / "old.bin"))
    with pytest.raises(UserError, match="not a state dictionary"):
        read_pytorch_archive(write(tmp_path / "list.bin", pickle.dumps([1])))
    nested = pickle.dumps({"state_dict": {"a": 1}, "epoch": 3})
    with pytest.raises(UserError, match="has no tensors, but state_dict, epoch: save"):
        read_pytorch_archive(write(tmp_path / "nested.bin", nested))
    with pytest.raises(UserError, match="cannot be read without PyTorch"):
        read_pytorch_archive(write(tmp_path / "cut.bin", pickle.dumps({"a": 1})[:-3]))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(b"r\xff\xff\xff\x1f", id="memo"),
        pytest.param(b"p536870911\n", id="memo in decimal digits"),
        pytest.param(b"\x96" + (1 << 33).to_bytes(8, "little"), id="array"),
    ],
)
def test_numbers_of_a_pickle_take_no_memory(tmp_path, code):
    """Each made Python's unpickler take 8 gigabytes; limited here, for a worse refusal."""
    path = write(tmp_path / "x.bin", b"\x80\x02}" + code + b".")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (virtual_bytes() + (2 << 30), before[1]))
    try:
        with pytest.raises(UserError, match=r"of a memo in|bytes in a bytearray8"):
            read_pytorch_archive(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def virtual_bytes() -> int:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


class Tensor(NamedTuple):
    """What PyTorch pickles of a tensor; its storage "0" has six values."""

    offset: Any
    shape: Any
    strides: Any
    storage: str = "FloatStorage"
    size: Any = 6

    def pickled(self) -> bytes:
        """Returns the pickle of {"x": tensor}."""

        def part(value) -> bytes:
            return pickle.dumps(value, 2)[2:-1]  # without protocol and stop

        storage = [part("storage"), f"ctorch\n{self.storage}\n".encode()]
        storage += map(part, ("0", "cpu", self.size))
        view = map(part, (self.offset, self.shape, self.strides, False, None))
        return b"".join(
            (
                *(b"\x80\x02}", part("x"), b"ctorch._utils\n_rebuild_tensor_v2\n("),
                *(b"(", *storage, b"tQ", *view, b"tRs."),
            )
        )


def torch_file(path, tensor: Tensor) -> str:
    return write(path, tensor.pickled(), [("0", np.arange(6, dtype=np.float32).tobytes())])


def test_views_of_a_storage_are_tensors(tmp_path):
    path = torch_file(tmp_path / "x.bin", Tensor(1, (2, 2), (3, 1)))
    np.testing.assert_array_equal(read_pytorch_archive(path)["x"], [[1, 2], [4, 5]])
    path = torch_file(tmp_path / "x.bin", Tensor(6, (0, 2), (2, 1)))
    assert read_pytorch_archive(path)["x"].shape == (0, 2)


def test_many_copies_of_a_storage_are_refused(tmp_path):
    """A thousand transposed views of four megabytes are four gigabytes."""
    size = 1 << 20
    view = Tensor(0, (1 << 10, 1 << 10), (1, 1 << 10), size=size).pickled()
    (start, stop) = (view.index(b"ctorch._utils"), view.rindex(b"s."))
    values = np.zeros(size, np.float32).tobytes()

    def state(count: int) -> bytes:
        names = [pickle.dumps(f"x{i}", 0)[:-1] for i in range(count)]
        return b"\x80\x02}" + b"".join(n + view[start:stop] + b"s" for n in names) + b"."

    tensors = read_pytorch_archive(write(tmp_path / "few.bin", state(4), [("0", values)]))
    assert [value.flags.c_contiguous for value in tensors.values()] == [True] * 4
    with pytest.raises(UserError, match=r"tensors of 4,194,304,000 bytes that share"):
        read_pytorch_archive(write(tmp_path / "many.bin", state(1000), [("0", values)]))


@pytest.mark.parametrize(
    ("storage", "dtype"),
    [("BFloat16Storage", ml_dtypes.bfloat16), ("HalfStorage", np.float16)],
)
def test_half_precision(tmp_path, storage, dtype):
    values = np.array([0.5, -2, 3, 4, 5, 1.5], dtype)
    content = Tensor(0, (2, 3), (3, 1), storage).pickled()
    path = write(tmp_path / "x.bin", content, [("0", values.tobytes())])
    value = read_pytorch_archive(path)["x"]
    assert value.dtype == dtype
    np.testing.assert_array_equal(value, values.reshape(2, 3))


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(0, (3, 3), (3, 1)),
        Tensor(0, (2, 3), (4, 1)),
        Tensor(5, (2,), (1,)),
        Tensor(0, (10**12,), (0,)),  # of one value, a terabyte in memory
        Tensor(0, (7,), (0,)),
        Tensor(-1, (2,), (1,)),
        Tensor(5, (2,), (-1,)),
        Tensor(0, (-1, 100), (600, 1)),
        Tensor(0, (2.0,), (1,)),
        Tensor(0, (2,), (1, 1)),
        Tensor(0, (2,), (1,), size=10**9),
        Tensor(0, (2,), (1,), "DoubleStorage"),
        Tensor(0, 2, 1),
    ],
)
def test_tensors_beyond_their_storage_are_refused(tmp_path, tensor):
    with pytest.raises(UserError, match=r"x\.bin cannot be read without PyTorch"):
        read_pytorch_archive(torch_file(tmp_path / "x.bin", tensor))


def test_a_member_that_grows_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", Tensor(0, (6,), (1,)).pickled())
        archive.writestr("model/data/0", bytes(10**7))
    with pytest.raises(UserError, match="10,000,000 bytes, more than the file"):
        read_pytorch_archive(str(tmp_path / "bomb.bin"))


def test_an_incomplete_file_is_not_to_be_converted(tmp_path):
    path = pathlib.Path(torch_file(tmp_path / "x.bin", Tensor(0, (6,), (1,))))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"x\.bin is damaged or incomplete \(.*download it"):
        read_pytorch_archive(str(path))


def test_any_damage_is_one_error(tmp_path):
    path = tmp_path / "x.bin"
    tensor = Tensor(0, (6,), (1,))
    content = pathlib.Path(torch_file(path, tensor)).read_bytes()
    pickled = tensor.pickled()
    generator = np.random.default_rng(0)
    for n in range(600):
        # Of the whole file, or of the pickle in a file whose checksums agree.
        changed = bytearray(content if n % 2 else pickled)
        changed[generator.integers(len(changed))] = generator.integers(256)
        if generator.random() < 0.3:
            del changed[generator.integers(len(changed)) :]
        if n % 2:
            path.write_bytes(changed)
        else:
            write(path, bytes(changed), [("0", bytes(24))])
        with contextlib.suppress(UserError):
            assert isinstance(read_pytorch_archive(str(path)), dict)
