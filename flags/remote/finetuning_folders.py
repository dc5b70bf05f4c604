"""Fine-tuning in remote folders: copies inputs of a run here, and its outputs back."""

import contextlib
import itertools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from absl import flags

from electra_tf.config.distribution import MULTI_WORKER
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_of
from electra_tf.training.checkpoints.staging import staged_folder
from electra_tf.util.errors import UserError
from electra_tf.util.paths import RemotePath, is_remote
from finetune.config import defaults
from flags import finetuning
from flags.remote import copies
from flags.remote.paths import naming_remote_paths, warn_of_counted_starts


@contextlib.contextmanager
def staged(
    print_fn: Callable[[str], None] = print, flag_values: flags.FlagValues = flags.FLAGS
) -> Iterator[None]:
    """Replaces remote folders of the flags by local ones while the body runs.

    Copies the vocabulary, the task files and the pre-trained model from DATA_DIR. What changes
    in finetuning_models, results and test_predictions is copied back to the folder of the
    model, or to --model_dir and --results_dir.

    Raises:
        UserError: a folder cannot be read or written, or several workers would write to it.
    """
    given = finetuning.explicit_settings(flag_values)
    names = ("data_dir", "task_spec", "init_checkpoint", "model_dir", "results_dir")
    remote = {name: given[name] for name in names if _is_remote(given.get(name))}
    is_complete = given.get("data_dir") and given.get("model_name")
    if not remote or not is_complete:  # otherwise the configuration reports what is missing
        yield
        return
    name, value = next(iter(remote.items()))
    if given.get("strategy") == MULTI_WORKER:
        raise UserError(
            f"--strategy=multi_worker needs a --{name} that all workers mount, not {value}"
        )
    if name == "task_spec":
        raise UserError(
            f"--task_spec={value} must be on this machine, as --data_dir is: copy it"
        )
    with contextlib.ExitStack() as stack:
        folders = _Folders(given, print_fn)
        if remote.keys() & {"data_dir", "model_dir"}:
            warn_of_counted_starts(given.get("max_starts_without_progress"))
        if "data_dir" in remote:
            stack.enter_context(folders.data_dir())
        stack.enter_context(folders.init_checkpoint())
        if "model_dir" in remote or "results_dir" in remote:
            stack.enter_context(folders.outputs())
        for name, value in folders.local.items():
            flag_values[name].value = value
        with naming_remote_paths(folders.names):
            yield


class _Folders:
    """The copies of a run's folders.

    Attributes:
        local: the values of flags that replace the given ones.
        names: remote paths by their local ones.
    """

    def __init__(self, given: Mapping[str, Any], print_fn: Callable[[str], None]) -> None:
        self._given = given
        self._tasks = tuple(given.get("task_names", ("chunk",)))
        self._print = print_fn
        self._data = given["data_dir"].rstrip("/")
        self._model = f"{self._data}/models/{given['model_name']}"
        self.local: dict[str, str] = {}
        self.names: dict[str, str] = {}

    @contextlib.contextmanager
    def data_dir(self) -> Iterator[None]:
        """Copies inputs from DATA_DIR, and what the body writes back to it."""
        with _naming_flag("--data_dir", self._data):
            is_used = _used_files(RemotePath(self._model), self._label)
        trains = self._given.get("do_train", True)
        with staged_folder(
            self._model,
            "--data_dir",
            self._print,
            trains=trains,
            part=self._label,
            is_used=is_used,
        ) as model:
            # The same path for a resumed run, because models record the paths of their data.
            data = pathlib.Path(f"{model}.data")
            shutil.rmtree(data, ignore_errors=True)
            try:
                self._copy_data(data)
                named = data / "models" / self._given["model_name"]
                named.parent.mkdir(parents=True)
                named.symlink_to(model, target_is_directory=True)
                self.names |= {str(data): self._data, model: self._model}
                yield
            finally:
                shutil.rmtree(data, ignore_errors=True)

    def _copy_data(self, data: pathlib.Path) -> None:
        remote, given = RemotePath(self._data), self._given
        data.mkdir()
        self.local["data_dir"] = str(data)
        if not given.get("preprocessed_data_dir"):
            # Features are made again, rather than copied.
            self.local["preprocessed_data_dir"] = str(data / "features")
        with _naming_flag("--data_dir", self._data):
            if (remote / VOCAB_FILE).exists():
                copies.copy_vocabulary(remote / VOCAB_FILE, data / VOCAB_FILE)
            if not given.get("raw_data_dir"):
                for task in self._tasks:
                    source = remote / "finetuning_data" / task
                    if source.is_dir():
                        copies.copy_tree(source, data / "finetuning_data" / task)
        spec = given.get("task_spec")
        if _is_remote(spec):
            source = RemotePath(spec)
            with _naming_flag("--task_spec", spec):
                local = copies.copy_file(source, data / "task_spec" / source.name)
            self.local["task_spec"] = str(local)

    @contextlib.contextmanager
    def init_checkpoint(self) -> Iterator[None]:
        """Copies the given model, unless it is local or the run's own."""
        name = self._given.get("init_checkpoint")
        value = name and copies.remote_model(name, self._data)
        if not value:
            yield
            return
        if value.rstrip("/") == self._model and "data_dir" in self.local:
            data = self.local["data_dir"]
            self.local["init_checkpoint"] = f"{data}/models/{self._given['model_name']}"
            yield
            return
        source = RemotePath(value)
        with tempfile.TemporaryDirectory(prefix="electra-remote-") as folder:
            with _naming_flag("--init_checkpoint", name):
                local = copies.copy_model(source, pathlib.Path(folder, source.name))
            self.local["init_checkpoint"] = str(local)
            self.names[str(local)] = value
            yield

    @contextlib.contextmanager
    def outputs(self) -> Iterator[None]:
        """Copies the content of --model_dir and --results_dir, and what is written back.

        Both are in one local folder: the results name the folder of the models relative to
        their own.
        """
        paths = defaults.paths(self._given, self._tasks)
        models = (self._given.get("model_dir") or paths["model_dir"]).rstrip("/")
        results = paths["results_dir"].rstrip("/")
        root = _common_folder(models.rpartition("/")[0], results)
        if not (is_remote(models) and is_remote(results) and root):
            raise UserError(
                f"--model_dir={models} and --results_dir={results} must be in the same bucket, "
                "since the results name the folder of the models: pass both"
            )
        model, result = models[len(root) + 1 :], results[len(root) + 1 :]

        in_results = (
            f"{result}/" if result else f"{','.join(self._tasks)}{defaults.SEARCH_SUFFIX}/"
        )

        def is_used(name: str) -> bool:
            is_result = name.startswith(in_results) or (not result and "/" not in name)
            return is_result or name.startswith(f"{model}_")

        def enters(folder: str) -> bool:
            is_above = any(path.startswith(f"{folder}/") for path in (model, result))
            return is_above or folder == result or is_used(f"{folder}/")

        with staged_folder(
            root,
            "--model_dir",
            self._print,
            trains=self._given.get("do_train", True),
            part=model,
            written=models,
            is_used=is_used,
            enters=enters,
        ) as local:
            self.local["model_dir"] = os.path.join(local, model)
            self.local["results_dir"] = os.path.join(local, result) if result else local
            self.names[local] = root
            yield

    @property
    def _label(self) -> str:
        """The first part of the names of the run's models."""
        return os.path.basename(defaults.paths(self._given, self._tasks)["model_dir"])


def _is_remote(value: str | None) -> bool:
    """Whether a value is a remote path, and not JSON that contains one."""
    return is_remote(value) and not value.lstrip().startswith(("{", "["))


def _common_folder(first: str, second: str) -> str | None:
    """Returns the deepest common folder of two remote folders; None if buckets differ."""
    # `gs://bucket/folder` begins with two parts that are not folders: `gs:` and an empty one.
    pairs = zip(first.split("/"), second.split("/"), strict=False)
    common = [name for name, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "/".join(common) if len(common) > 2 else None


def _used_files(model: RemotePath, label: str) -> Callable[[str], bool]:
    """Returns a function that tells whether a file of the model's folder is used.

    It takes the path relative to that folder."""
    names = [path.name for path in model.iterdir()] if model.is_dir() else []
    older = copies.older_checkpoints(names)

    def is_used(name: str) -> bool:
        if "/" in name:
            return name.startswith((f"finetuning_models/{label}", "results/"))
        if name.startswith("events.out."):
            return False
        return checkpoint_of(name) not in older

    return is_used


@contextlib.contextmanager
def _naming_flag(flag: str, value: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{flag}={value} cannot be read: {error.strerror}") from error
