"""Exports a model, from its folder to a new version."""

import pathlib
from collections.abc import Callable

from electra_tf.export.config import LITERT, ONNX, ExportConfig
from electra_tf.export.litert import write_litert
from electra_tf.export.models import load_servable
from electra_tf.export.onnx_format import write_onnx
from electra_tf.export.saved_model import write_saved_model
from electra_tf.export.versions import new_version, version_to_write


def run(config: ExportConfig, say: Callable[[str], None] = print) -> pathlib.Path:
    """Exports what the configuration asks for.

    Returns:
        The folder of the new version.

    Raises:
        UserError: for bad input, before anything is written.
    """
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
