"""Exports the model in a folder as a new version."""

import contextlib
import errno
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.inference.export.config import (
    EXTRAS,
    FLOAT32,
    FORMATS,
    GENERATOR,
    SAVED_MODEL,
    ExportConfig,
    is_version,
)
from electra_tf.inference.export.servable import Servable, ServableLoader
from electra_tf.text.tokenizer_description import TOKENIZER_SETTINGS, tokenizer_settings
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.training.checkpoints.authors_files import refuse_authors_checkpoint
from electra_tf.training.distribution.bfloat16 import warn_of_emulated_bfloat16
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.extras import import_extra
from electra_tf.util.files import flush_folder, flush_tree, make_folders
from electra_tf.util.output_checks import check_output_folder
from electra_tf.util.temporaries import temporary_path


def export(
    config: ExportConfig,
    loaders: Sequence[ServableLoader],
    print_fn: Callable[[str], None] = print,
) -> pathlib.Path:
    """Exports a component of a model.

    Args:
        config: settings of the export.
        loaders: loaders of the supported kinds of models.
        print_fn: prints a message.

    Returns:
        The folder of the new version.

    Raises:
        UserError: the input is invalid; nothing has been written.
    """
    if config.format in EXTRAS:
        modules, extra = EXTRAS[config.format]
        for module in modules:
            import_extra(module, extra, f"--format={config.format}")
    if config.top_k != ExportConfig.top_k and config.component != GENERATOR:
        warn_once(f"--top_k={config.top_k} has no effect without --component={GENERATOR}")
    version = version_to_write(config.export_dir, config.version)
    folder = os.path.realpath(config.export_dir)
    check_output_folder(folder, f"--export_dir={config.export_dir}")
    servable = load_servable(config, loaders, print_fn)
    write = choices.load(FORMATS, config.format)
    with new_version(config.export_dir, version) as directory:
        write(servable, directory, config.export_dir.name)
    exported = config.export_dir / str(version)
    for path in sorted(exported.rglob("*")):
        if path.is_file():
            size = path.stat().st_size / 1e6
            print_fn(f"Written: {path}, {size:.2f} MB")
    _warn_of_versions(config.export_dir, version)
    return exported


def version_to_write(export_dir: pathlib.Path, version: int | None) -> int:
    """Returns the version number of a new export.

    Args:
        export_dir: export folder; need not exist.
        version: requested version; None is the one after the highest.

    Raises:
        UserError: the version exists, or `export_dir` is a file or below one.
    """
    existing = next(each for each in (export_dir, *export_dir.parents) if each.exists())
    if not existing.is_dir():
        raise UserError(f"--export_dir={export_dir}: {existing} is a file, not a folder")
    taken = _versions(export_dir)
    if version is None:
        return max(taken, default=0) + 1
    if version in taken:
        raise UserError(
            f"--version={version}: {export_dir / str(version)} exists and is not overwritten. "
            f"Omit --version to use the next free one, {max(taken) + 1}"
        )
    return version


def _versions(export_dir: pathlib.Path) -> list[int]:
    return [int(path.name) for path in export_dir.glob("*") if is_version(path.name)]


def _warn_of_versions(export_dir: pathlib.Path, version: int) -> None:
    """Warns if a server would not serve the new version, or cannot serve the others with it."""
    others = [each for each in _versions(export_dir) if each != version]
    if any(each > version for each in others):
        warn_once(
            f"{export_dir} has the version {max(others)}: servers load the highest one, not "
            f"the new version {version}"
        )
    is_saved_model = _is_saved_model(export_dir, version)
    # The format of an empty folder is unknown.
    known = [each for each in others if _has_content(export_dir / str(each))]
    different = [each for each in known if _is_saved_model(export_dir, each) != is_saved_model]
    if different:
        warn_once(
            f"{export_dir} has SavedModels and versions of other formats (--format), but a "
            "server loads the highest version, whatever its format: use one folder per format"
        )


def _has_content(folder: pathlib.Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _is_saved_model(export_dir: pathlib.Path, version: int) -> bool:
    return (export_dir / str(version) / "saved_model.pb").exists()


@contextlib.contextmanager
def new_version(export_dir: pathlib.Path, version: int) -> Iterator[pathlib.Path]:
    """Yields a temporary folder that is renamed to `EXPORT_DIR/VERSION` on success.

    Model servers look for numbered folders, so they only see complete versions, also after a
    power cut.

    Raises:
        UserError: the version has been created meanwhile, or the disk is full.
        OSError: a file cannot be written; it names the file, or else the folder.
    """
    make_folders(export_dir)
    # Another process may be exporting the same version.
    temporary = pathlib.Path(temporary_path(export_dir / f"writing-{version}"))
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        try:
            flush_tree(temporary)
            temporary.rename(export_dir / str(version))
            flush_folder(str(export_dir))
        except OSError as error:
            reason = error.strerror
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                reason = "another program has written this version meanwhile; export again"
            raise UserError(
                f"{export_dir / str(version)} cannot be created: {reason}"
            ) from error
    except tf.errors.OpError as error:
        raise UserError(
            f"--export_dir={export_dir} cannot be written: {reason_of(error)}"
        ) from error
    except OSError as error:  # a full disk's names no file
        if error.errno:  # without it, a file name would replace the message
            error.filename = error.filename or str(export_dir)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_servable(
    config: ExportConfig,
    loaders: Sequence[ServableLoader],
    print_fn: Callable[[str], None] = print,
) -> Servable:
    """Loads the component of the model in `config.model_dir`; see `export`.

    Raises:
        UserError: there is no model, or it has no such component.
    """
    description = load_saved_config(config.model_dir)
    if description is None:
        refuse_authors_checkpoint(config.model_dir)
        raise UserError(
            f"--model_dir={config.model_dir} contains no {CONFIG_FILE}: pass the folder of a "
            "model from run_pretraining.py (DATA_DIR/models/NAME) or run_finetuning.py "
            "(…/finetuning_models/TASK_model_1)"
        )
    saved = {
        **description.hyperparameters,
        "model_dir": config.model_dir,
        "vocab_file": os.path.join(config.model_dir, VOCAB_FILE),
    }
    settings = {name: saved.get(name) for name in TOKENIZER_SETTINGS}
    flags = {name: f"{name} of {CONFIG_FILE}" for name in TOKENIZER_SETTINGS}
    saved |= tokenizer_settings(settings, saved["vocab_file"], flags=flags)
    if config.precision or config.format != SAVED_MODEL:
        saved["precision"] = config.precision or FLOAT32
    warn_of_emulated_bfloat16(saved.get("precision", FLOAT32))
    for loader in loaders:
        if loader.describes(saved):
            return loader.load(config, saved, print_fn)
    raise UserError(
        f"--model_dir={config.model_dir}: {CONFIG_FILE} does not describe an exportable model"
    )
