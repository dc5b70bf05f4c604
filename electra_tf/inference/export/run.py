"""Exports a model, from its folder to a new version."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator

from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.inference.export.config import LITERT, ONNX, SAVED_MODEL, ExportConfig
from electra_tf.inference.export.litert import write_litert
from electra_tf.inference.export.onnx import write_onnx
from electra_tf.inference.export.pretrained import _load_pretrained
from electra_tf.inference.export.saved_model import write_saved_model
from electra_tf.inference.export.servable import Servable
from electra_tf.training.checkpoints import VOCAB_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra

# What a format needs, and the extra that installs it; warm-up requests are of TensorFlow
# Serving.
_EXTRAS = {SAVED_MODEL: ("tensorflow_serving", "serving"), ONNX: ("tf2onnx", "onnx")}


def run(config: ExportConfig, say: Callable[[str], None] = print) -> pathlib.Path:
    """Exports what the configuration asks for.

    Returns:
        The folder of the new version.

    Raises:
        UserError: for bad input, before anything is written.
    """
    if config.format in _EXTRAS:
        module, extra = _EXTRAS[config.format]
        import_extra(module, extra, f"--format={config.format}")
    version = version_to_write(config.export_dir, config.version)
    servable = load_servable(config, say)
    with new_version(config.export_dir, version) as directory:
        if config.format == LITERT:
            write_litert(servable, directory)
        elif config.format == ONNX:
            write_onnx(servable, directory)
        else:
            write_saved_model(servable, directory, config.export_dir.name)
    exported = config.export_dir / str(version)
    for path in sorted(exported.rglob("*")):
        if path.is_file():
            size = path.stat().st_size / 1e6
            say(f"Written: {path}, {size:.2f} MB")
    return exported


def version_to_write(export_dir: pathlib.Path, version: int | None) -> int:
    """Returns the version that an export gets.

    Args:
        export_dir: may not exist yet.
        version: as asked for; the one after the highest that is there if None.

    Raises:
        UserError: the version is there already, or `export_dir` is a file.
    """
    if export_dir.exists() and not export_dir.is_dir():
        raise UserError(f"--export_dir={export_dir} is a file, not a folder")
    names = [path.name for path in export_dir.glob("*")]
    taken = [int(name) for name in names if name.isascii() and name.isdigit()]
    if version is None:
        return max(taken, default=0) + 1
    if version in taken:
        raise UserError(
            f"--version={version}: {export_dir / str(version)} exists and is not overwritten. "
            f"Leave out --version for the next free one, {max(taken) + 1}"
        )
    return version


@contextlib.contextmanager
def new_version(export_dir: pathlib.Path, version: int) -> Iterator[pathlib.Path]:
    """Gives a folder to write to, which becomes `EXPORT_DIR/VERSION` when all went well.

    Model servers look for folders that are numbers: they see a version when it is whole.

    Raises:
        UserError: the version has appeared meanwhile.
    """
    export_dir.mkdir(parents=True, exist_ok=True)
    # Another process may export the same version at the same time.
    temporary = export_dir / f"writing-{version}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        try:
            temporary.rename(export_dir / str(version))
        except OSError as error:
            raise UserError(
                f"{export_dir / str(version)} cannot be made: {error.strerror}"
            ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_servable(config: ExportConfig, say: Callable[[str], None] = print) -> Servable:
    """Returns what `config.component` of the model in `config.model_dir` is.

    Raises:
        UserError: there is no model, or it has no such component.
    """
    description = load_saved_config(config.model_dir)
    if description is None:
        raise UserError(
            f"--model_dir={config.model_dir} holds no {CONFIG_FILE}: name the folder of a "
            "model of run_pretraining.py (DATA_DIR/models/NAME) or of run_finetuning.py "
            "(…/finetuning_models/TASK_model_1)"
        )
    saved = {
        **description.hyperparameters,
        "model_dir": config.model_dir,
        "vocab_file": os.path.join(config.model_dir, VOCAB_FILE),
    }
    if config.precision:
        saved["precision"] = config.precision
    if "task_names" in saved:
        # Imported here: fine-tuning builds on this package.
        from finetune.export import load_finetuned

        return load_finetuned(config, saved, say)
    return _load_pretrained(config, saved, say)
