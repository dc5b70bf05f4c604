"""Changes of JSON texts, for tests of damaged files."""

import json
from collections.abc import Iterator
from typing import Any

VALUES = (None, True, -1, 3.5, float("nan"), 1e400, "", "\ud800", [], [None], {}, 10**30, "-1")


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yields the path of every value within a JSON value, but its own."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def changed_values(text: str) -> Iterator[str]:
    """Yields the JSON text with each value replaced by others, and left out."""
    for path in places(json.loads(text)):
        for new in (*VALUES, KeyError):
            value = holder = json.loads(text)
            for key in path[:-1]:
                holder = holder[key]
            if new is KeyError:
                del holder[path[-1]]
            else:
                holder[path[-1]] = new
            yield json.dumps(value)
