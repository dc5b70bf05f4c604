"""Checks that outputs can be written and replace no input, before any work is done."""

import os
import re
import tempfile
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from electra_tf.util.files import is_stream

# Files of models and records by name, and names that only belong to them beside such files.
_OF_MODELS_AND_RECORDS = re.compile(
    r"electra_tf\.json|run_info\.json|train_log\.jsonl"
    r"|.+\.tokenizer\.json|.+\.(index|manifest\.json|data-\d{5}-of-\d{5}|safetensors)"
    r"|pretrain_data\.(json|tfrecord-.+)"
)
_NAMES_BESIDE_THEM = ("best.json", "checkpoint", "config.json", "vocab.txt")


def check_output_file(path: str | os.PathLike, flag: str) -> None:
    """Raises UserError if a file cannot be written, or would replace one of a model or records.

    Args:
        path: the file; it and folders above it need not exist.
        flag: flag that names it, for the message.
    """
    if os.path.isdir(path):
        raise UserError(f"{flag}={path} is a folder: pass the path of a file")
    if is_stream(os.fspath(path)):
        return
    if _is_of_model_or_records(path):
        raise UserError(
            f"{flag}={path} exists, and is a file of a model or of records: pass another path"
        )
    check_output_folder(os.path.dirname(os.path.abspath(path)), f"{flag}={path}")


def _is_of_model_or_records(path: str | os.PathLike) -> bool:
    if not os.path.exists(path):
        return False
    folder, name = os.path.split(os.path.realpath(path))
    if name not in _NAMES_BESIDE_THEM:
        return _OF_MODELS_AND_RECORDS.fullmatch(name) is not None
    # Vocabularies have descriptions without a model, too, and may be built again.
    beside = [each for each in os.listdir(folder) if not each.endswith(".tokenizer.json")]
    return any(map(_OF_MODELS_AND_RECORDS.fullmatch, beside))


def check_distinct(outputs: Mapping[str, str | os.PathLike | None]) -> None:
    """Raises UserError if two flags name the same output file.

    Args:
        outputs: files by flag; None is not written. Devices, such as /dev/null, may be shared.
    """
    flags: dict[str, str] = {}
    for flag, path in outputs.items():
        if path is None or is_stream(os.fspath(path)):
            continue
        other = flags.setdefault(os.path.realpath(path), flag)
        if other != flag:
            raise UserError(f"{flag}={path} is also the file of {other}: pass another path")


def check_not_input(
    output: str | os.PathLike, flag: str, inputs: Mapping[str, str | os.PathLike | None]
) -> None:
    """Raises UserError if an output file is one of the inputs.

    Args:
        output: the file to write.
        flag: flag that names it.
        inputs: files that are read, by their flags; None where there is none.
    """
    for name, path in inputs.items():
        # Remote paths are not PathLike.
        if path is not None and os.path.realpath(str(path)) == os.path.realpath(str(output)):
            raise UserError(
                f"{flag}={output} is the file that {name} reads, and would be overwritten: "
                "pass another path"
            )


def check_output_folder(path: str | os.PathLike, named: str) -> None:
    """Raises UserError if files cannot be written into a folder, which need not exist.

    Args:
        path: the folder.
        named: flag and value that name it, for the message.
    """
    folder = os.path.abspath(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{named} cannot be written: {folder}: {error.strerror}") from error
