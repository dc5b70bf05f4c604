"""Compares the outputs of two checkouts: files, arrays and values, bit for bit."""

import dataclasses
import json
import pathlib
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.compare_checkouts.inputs import MODELS

_CHECKPOINT = re.compile(r"ckpt-(\d+)\.index")
# Proto that describes the saved Python objects; the arrays have keys of their own.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SAVE_COUNTER = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
_TIME_NAME = re.compile(r"(^|_)(seconds|time)(_|$)|_per_second$|^date_saved$")
_DURATION = re.compile(r"\b\d+(\.\d+)? (s|min|h)\b")
# The KerasHub format has a pooler, which ELECTRA lacks: it is written with random weights.
_RANDOM_ARRAY = re.compile(r"pooled_dense")
# Locks, the protos of a SavedModel, TensorBoard's files (compared by their scalars), and
# the data of checkpoints (compared through their index).
_IGNORED = re.compile(r"\.lock$|\.data-\d+-of-\d+$|\.pb$|^events\.out\.tfevents")
_TABLES = (".txt", ".md")


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value that differs.

    Attributes:
        where: file and name of the value.
        what: how it differs.
    """

    where: str
    what: str


@dataclasses.dataclass
class Comparison:
    """Counts of what was compared, and the differences.

    `notes` report differences that do not count as failures.
    """

    checkpoints: int = 0
    arrays: int = 0
    values: int = 0
    files: int = 0
    differences: list[Difference] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        """Adds a difference."""
        self.differences.append(Difference(where, what))


def compare_folders(
    before: pathlib.Path, after: pathlib.Path, inputs: pathlib.Path
) -> Comparison:
    """Compares all files of two folders except the models that were copied from `inputs`."""
    result = Comparison()
    copied = {f"{MODELS}/{name}" for name in _file_names(inputs / MODELS)}
    names = [set(_file_names(folder)) - copied for folder in (before, after)]
    _compare_names("file", *names, result)
    if not any(names):
        result.add("folder", "no files to compare")
    for name in sorted(names[0] & names[1]):
        if not _IGNORED.search(pathlib.Path(name).name):
            _compare_files(name, before / name, after / name, result)
    events = [_event_values(folder) for folder in (before, after)]
    _compare_values("TensorBoard", *events, result)
    return result


def compare_last_checkpoints(
    first: pathlib.Path, second: pathlib.Path, label: str, result: Comparison
) -> None:
    """Compares the last checkpoint of each model, such as `model/ckpt-20`, of two cases.

    Args:
        first, second: folders of the cases.
        label: prefix of the names in differences.
        result: receives the differences.
    """
    last = [_last_checkpoints(folder) for folder in (first, second)]
    if not last[0] or last[0].keys() - last[1].keys():
        result.add(label, "no checkpoint to compare with")
    for folder in sorted(last[0].keys() & last[1].keys()):
        prefixes = [each[folder] for each in last]
        arrays = [_checkpoint_arrays(prefix) for prefix in prefixes]
        for each in arrays:
            each.pop(_SAVE_COUNTER, None)  # preemption saves once more
        where = f"{label} {folder}"
        if prefixes[0].name != prefixes[1].name:
            result.add(where, f"ends at {prefixes[0].name} and {prefixes[1].name}")
        _compare_arrays(where, *arrays, result)


def _file_names(folder: pathlib.Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        # The name of TensorBoard's files has the time in it.
        if path.is_file() and not hidden and not path.name.startswith("events.out"):
            yield name


def _compare_files(
    name: str, before: pathlib.Path, after: pathlib.Path, result: Comparison
) -> None:
    result.files += 1
    if before.name.endswith(".index"):
        result.checkpoints += 1
        pair = [_checkpoint_arrays(path.with_suffix("")) for path in (before, after)]
        is_training = _CHECKPOINT.fullmatch(before.name)
        if is_training and _object_graph(before) != _object_graph(after):
            result.notes.append(f"{name}: the graph of saved objects differs")
        _compare_arrays(name, *pair, result)
    elif before.suffix in _ARRAY_READERS:
        read = _ARRAY_READERS[before.suffix]
        _compare_arrays(name, read(before), read(after), result)
    elif before.suffix in _VALUE_READERS or before.name == "checkpoint":
        read = _VALUE_READERS.get(before.suffix, _checkpoint_state)
        _compare_values(name, read(before), read(after), result)
    elif before.suffix == ".tfrecord":
        pair = [dict(enumerate(_examples(path), 1)) for path in (before, after)]
        _compare_values(name, *pair, result)
    elif before.suffix in _TABLES:
        texts = [_DURATION.sub("TIME", path.read_text("utf-8")) for path in (before, after)]
        lines = [dict(enumerate(text.splitlines(keepends=True), 1)) for text in texts]
        _compare_values(name, *lines, result)
    elif before.read_bytes() != after.read_bytes():
        sizes = [path.stat().st_size for path in (before, after)]
        result.add(name, f"other bytes ({sizes[0]} and {sizes[1]})")


def _compare_arrays(
    where: str,
    before: Mapping[str, np.ndarray],
    after: Mapping[str, np.ndarray],
    result: Comparison,
) -> None:
    _compare_names(f"{where}: key", set(before), set(after), result)
    for name in sorted(before.keys() & after.keys()):
        if _RANDOM_ARRAY.search(name) and where.endswith(".h5"):
            continue
        result.arrays += 1
        what = array_difference(before[name], after[name])
        if what:
            result.add(f"{where}: {name}", what)


def array_difference(before: np.ndarray, after: np.ndarray) -> str | None:
    """Returns how two arrays differ in dtype, shape or bits; None if they are equal."""
    if before.dtype != after.dtype:
        return f"{before.dtype} became {after.dtype}"
    if before.shape != after.shape:
        return f"{list(before.shape)} became {list(after.shape)}"
    if before.dtype == object:
        return None if before.tolist() == after.tolist() else "other objects"
    if np.ascontiguousarray(before).tobytes() == np.ascontiguousarray(after).tobytes():
        return None
    if before.dtype.kind not in "fiub" and before.dtype.name != "bfloat16":
        return "other values"
    first, second = before.astype(np.float64), after.astype(np.float64)
    different = ~((first == second) | (np.isnan(first) & np.isnan(second)))
    if not different.any():
        return "equal values in other bits (-0.0 or another NaN)"
    largest = np.max(np.abs(first - second)[different])
    return f"{different.sum()} of {first.size} values, by up to {largest:.3g}"


def _compare_values(
    where: str, before: Mapping[Any, Any], after: Mapping[Any, Any], result: Comparison
) -> None:
    """Compares values by name; `repr` tells all floats apart, and equates NaNs."""
    _compare_names(f"{where}:", {*map(str, before)}, {*map(str, after)}, result)
    for name in before:
        if name not in after:
            continue
        result.values += 1
        first, second = before[name], after[name]
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            what = array_difference(first, second)
        elif type(first) is type(second) and repr(first) == repr(second):
            what = None
        elif isinstance(first, float) and isinstance(second, float):
            what = f"{first!r} became {second!r}, by {abs(first - second):.3g}"
        else:
            what = f"{first!r} became {second!r}"
        if what:
            result.add(f"{where}: {name}", what)


def _compare_names(kind: str, before: set[str], after: set[str], result: Comparison) -> None:
    for name in sorted(before - after):
        result.add(f"{kind} {name}", "only before")
    for name in sorted(after - before):
        result.add(f"{kind} {name}", "only after")


def _checkpoint_arrays(prefix: pathlib.Path) -> dict[str, np.ndarray]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: np.asarray(reader.get_tensor(name))
        for name in reader.get_variable_to_shape_map()
        if name != _OBJECT_GRAPH
    }


def _object_graph(index: pathlib.Path) -> bytes | None:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(index.with_suffix("")))
    return reader.get_tensor(_OBJECT_GRAPH) if reader.has_tensor(_OBJECT_GRAPH) else None


def _last_checkpoints(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Maps the folder of each model to the prefix of its last checkpoint."""
    steps: dict[str, list[int]] = {}
    for path in folder.rglob("ckpt-*.index"):
        match = _CHECKPOINT.fullmatch(path.name)
        if match and MODELS not in path.relative_to(folder).parts:
            steps.setdefault(str(path.parent.relative_to(folder)), []).append(int(match[1]))
    return {name: folder / name / f"ckpt-{max(found)}" for name, found in steps.items()}


def _event_values(folder: pathlib.Path) -> dict[str, Any]:
    """Returns TensorBoard's scalars; a resumed run replaces the steps that it repeats."""
    from tensorflow.core.util import event_pb2
    from tensorflow.python.framework.tensor_util import MakeNdarray
    from tensorflow.python.lib.io import tf_record

    values: dict[str, Any] = {}
    for path in sorted(folder.rglob("events.out.tfevents*")):
        place = path.parent.relative_to(folder).as_posix()
        for record in tf_record.tf_record_iterator(str(path)):
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                if not _TIME_NAME.search(value.tag.rpartition("/")[2]):
                    name = f"{place} step {event.step} {value.tag}"
                    values[name] = MakeNdarray(value.tensor)
    return values


def _examples(path: pathlib.Path) -> Iterator[str]:
    """Yields the examples of a feature cache, whose bytes have their features in any order."""
    import tensorflow as tf
    from tensorflow.python.lib.io import tf_record

    for record in tf_record.tf_record_iterator(str(path)):
        features = tf.train.Example.FromString(record).features.feature
        yield "".join(f"{name} {features[name]}" for name in sorted(features))


def _checkpoint_state(path: pathlib.Path) -> dict[int, str]:
    lines = path.read_text().splitlines()
    kept = [line for line in lines if "checkpoint_path" in line]
    return dict(enumerate(kept, 1))


def flatten(value: Any, name: str = "") -> dict[str, Any]:
    """Returns the leaves of nested containers by path, without times and rates."""
    if isinstance(value, Mapping) and value:
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {name: np.asarray(value) if isinstance(value, np.generic) else value}
    leaves: dict[str, Any] = {}
    for key, item in items:
        if not _TIME_NAME.search(key):
            leaves |= flatten(item, f"{name}/{key}" if name else key)
    return leaves


def _json_lines(path: pathlib.Path) -> dict[str, Any]:
    lines = path.read_text("utf-8").splitlines()
    return flatten({f"line {i}": json.loads(line) for i, line in enumerate(lines, 1)})


def _h5_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    import h5py

    arrays: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return {name: np.asarray(value) for name, value in arrays.items()}


def _safetensors_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(path)


_ARRAY_READERS: dict[str, Callable[[pathlib.Path], Mapping[str, np.ndarray]]] = {
    ".safetensors": _safetensors_arrays,
    ".h5": _h5_arrays,
    ".npz": lambda path: dict(np.load(path)),
}
_VALUE_READERS: dict[str, Callable[[pathlib.Path], Mapping[Any, Any]]] = {
    ".json": lambda path: flatten(json.loads(path.read_text("utf-8"))),
    ".jsonl": _json_lines,
    ".pkl": lambda path: flatten(pickle.loads(path.read_bytes())),
}
