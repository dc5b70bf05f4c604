"""Optional packages that one program or format needs, and that an extra installs."""

import importlib
import types

from electra_tf.util.errors import UserError


def import_extra(module: str, extra: str, purpose: str) -> types.ModuleType:
    """Returns a module of an optional dependency.

    Args:
        module: dotted name.
        extra: the extra in pyproject.toml that installs it.
        purpose: what needs it, such as `--format=onnx`; the message begins with it.

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
