"""One example of a file, and conversion of its values to texts, labels or numbers."""

import json
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from electra_tf.config.hyperparameters import FLOAT_LIMIT
from electra_tf.util.errors import UserError, nearest_name_hint

# Roles that are not inputs; their column may have another role, too.
_SHARING_ROLES = ("id", "group")
# Characters of a value in an error message.
_MAX_SHOWN = 60


def check_different_columns(path: str, found: Mapping[str, int | str]) -> None:
    """Raises UserError if two roles have the same column, such as one by name and by index.

    Args:
        path: path of the file.
        found: the index or the name of each role's column in the file.
    """
    roles: dict[int | str, str] = {}
    for role, column in found.items():
        other = role if role in _SHARING_ROLES else roles.setdefault(column, role)
        if other != role:
            raise UserError(
                f'{path}: "columns" gives the same column of the file as {other!r} and as '
                f"{role!r}"
            )


def column_hint(role: str, column: str, names: Collection[str]) -> str:
    """Returns which of the names was probably meant by a missing column, or nothing."""
    if role in names:
        return f' Did you mean {role!r}? Then set "columns" to {{"{role}": "{role}", …}}'
    composed = unicodedata.normalize("NFC", column)
    if any(unicodedata.normalize("NFC", name) == composed for name in names):
        return " One of these is the same text in another Unicode form (NFC, NFD): copy it."
    return nearest_name_hint(column, names)


class RawExample(NamedTuple):
    """One example of a file.

    Attributes:
        path: path of the file.
        line: first line of the record; its row in a Parquet file.
        values: values by role: strings for tsv and csv, JSON values for jsonl and parquet,
            lists of strings for conll.
        unit: what `line` counts, "line" or "row".
    """

    path: str
    line: int
    values: dict[str, Any]
    unit: str = "line"

    @property
    def where(self) -> str:
        """The location, for errors."""
        return f"{self.path}: {self.unit} {self.line}"

    def text(self, role: str) -> str:
        """Returns a text.

        Raises:
            UserError: it is not a string, or blank.
        """
        value = self.values[role]
        if not isinstance(value, str):
            raise UserError(f"{self.where}: {role} must be a string, not {brief(value)}")
        if not value.strip():
            raise self._empty(role)
        return value

    def words(self, role: str) -> list[str]:
        """Returns a list of words or tags; a string is split at whitespace.

        Raises:
            UserError: it is empty, or contains a blank string or another type.
        """
        value = self.values[role]
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            raise UserError(
                f"{self.where}: {role} must be a list of strings, not {brief(value)}"
            )
        if not words:
            raise self._empty(role)
        for word in words:
            if not word.strip():
                raise UserError(f"{self.where}: {role} contains an empty string")
        return words

    def label(self, role: str) -> str:
        """Returns a label: a string, an integer or a boolean.

        Raises:
            UserError: it is empty, or another JSON value.
        """
        return self._label_text(role, self.values[role])

    def labels(self, role: str, separator: str) -> list[str]:
        """Returns the distinct labels of a cell; none if it is empty.

        Raises:
            UserError: a value is not a label.
        """
        value = self.values[role]
        if isinstance(value, str):
            value = [part.strip() for part in value.split(separator)] if value.strip() else []
        if not isinstance(value, list):
            raise UserError(
                f"{self.where}: {role} must be a list of labels, not {brief(value)}"
            )
        return list(dict.fromkeys(self._label_text(role, label) for label in value))

    def number(self, role: str) -> float:
        """Returns a number that is far from overflow in float32.

        Raises:
            UserError: it is anything else.
        """
        value = self.values[role]
        # Python also takes 1_000 and the digits of every script.
        is_odd = isinstance(value, str) and ("_" in value or not value.strip().isascii())
        try:
            number = float("nan" if is_odd or isinstance(value, bool) else value)
        except (TypeError, ValueError, OverflowError):
            number = float("nan")
        if not abs(number) < float("inf"):
            raise UserError(f"{self.where}: {role} must be a number, not {brief(value)}")
        if not abs(number) < FLOAT_LIMIT:
            raise UserError(
                f"{self.where}: {role} {number} is too large: numbers must be between "
                f"-{FLOAT_LIMIT} and {FLOAT_LIMIT}; does it mean that the value is missing?"
            )
        return number

    def name(self, role: str) -> str | None:
        """Returns a string or number as a string, or None if there is no such column."""
        value = self.values.get(role)
        return None if value is None else str(value)

    def group(self, role: str) -> str | None:
        """Returns the name of a group, or None if there is no such column.

        Raises:
            UserError: it is empty, or not a string, an integer or a boolean.
        """
        return self._label_text(role, self.values[role]) if role in self.values else None

    def _empty(self, role: str) -> UserError:
        return UserError(f"{self.where}: {role} is empty; fill it in or remove the {self.unit}")

    def _label_text(self, role: str, value: Any) -> str:
        if isinstance(value, (bool, int)):
            return json.dumps(value)
        if not isinstance(value, str):
            raise UserError(
                f"{self.where}: {role} must be a string, an integer or a boolean, not "
                f"{brief(value)}"
            )
        if not value.strip():
            raise UserError(f"{self.where}: {role} is empty")
        return value.strip()


def brief(value: Any) -> str:
    """Formats a JSON value for an error message; long ones are cut."""
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
