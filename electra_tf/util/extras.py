"""Packages that one program or one format needs, and that an extra installs."""

import importlib
import types

from electra_tf.util.errors import UserError


def import_extra(module: str, extra: str, purpose: str) -> types.ModuleType:
    """Returns a module of an optional dependency.

    Args:
        module: dotted name.
        extra: of pyproject.toml, which installs it.
        purpose: what needs it, first in the message: `--format=onnx`.

    Raises:
        UserError: it is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise UserError(
            f"{purpose} needs {package}, which is not installed: "
            f"pip install 'electra-tf[{extra}]'"
        ) from error
