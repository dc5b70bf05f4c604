"""JSON objects with a checksum of their own content, for files on which results depend.

A digit that a bad disk has changed is valid JSON. Files of older versions have no checksum.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError

SEAL = "content_sha256"


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns JSON-serializable content with its checksum."""
    return {**content, SEAL: _digest(content)}


def without_seal(content: Mapping[str, Any], path: str | os.PathLike) -> dict[str, Any]:
    """Returns the content that was passed to `sealed`, after comparing its checksum.

    Args:
        content: object in a JSON file, with a checksum or without.
        path: the file, for the error.

    Raises:
        UserError: the checksum does not match.
    """
    rest = {name: value for name, value in content.items() if name != SEAL}
    if SEAL in content and content[SEAL] != _digest(rest):
        raise UserError(
            f"{path} has changed since it was written: its checksum, {SEAL}, does not match. "
            f"Restore the file from a copy; if you edited it, delete {SEAL} from it"
        )
    return rest


def _digest(content: Mapping[str, Any]) -> str:
    # JSON turns keys that are numbers into strings, and tuples into lists.
    read_again = json.loads(json.dumps(content))
    return hashlib.sha256(json.dumps(read_again, sort_keys=True).encode()).hexdigest()
