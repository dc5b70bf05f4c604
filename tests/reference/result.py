"""What a reference check found, and how arrays are compared."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """Outcome of comparing one thing with the reference data.

    Attributes:
        name: what was compared.
        passed: whether it agrees; true of what was skipped.
        detail: counts or differences, in one line.
        skipped: nothing was compared, for the reason in `detail`.
    """

    name: str
    passed: bool
    detail: str
    skipped: bool = False


def skip(name: str, reason: str) -> CheckResult:
    """Returns the result of a check that does not apply."""
    return CheckResult(name, True, reason, skipped=True)


def relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest absolute value expected.

    Relative to 1 where all expected values are 0; infinite for other shapes, and for values
    that are not finite. NaN, such as the correlation with a constant, is equal to NaN.
    """
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if actual.shape != expected.shape:
        return float("inf")
    is_number = ~(np.isnan(actual) & np.isnan(expected))
    actual, expected = actual[is_number], expected[is_number]
    if not (np.isfinite(actual).all() and np.isfinite(expected).all()):
        return float("inf")
    if not expected.size:
        return 0.0
    scale = np.max(np.abs(expected)) or 1.0
    return float(np.max(np.abs(actual - expected)) / scale)


class Comparison:
    """The arrays that one check compares; `result` sums them up in one line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._differences: list[tuple[str, float]] = []
        self._wrong: list[str] = []

    def close(
        self, label: str, actual: np.ndarray, expected: np.ndarray, tolerance: float
    ) -> None:
        """Compares floating-point arrays by `relative_difference`."""
        self.difference(label, relative_difference(actual, expected), tolerance)

    def difference(self, label: str, difference: float, tolerance: float) -> None:
        """Takes a difference that was computed elsewhere."""
        self._differences.append((label, difference))
        if not difference <= tolerance:
            self._wrong.append(f"{label} differs by {difference:.1e} (at most {tolerance:.0e})")

    def equal(self, label: str, actual: np.ndarray, expected: np.ndarray) -> None:
        """Compares arrays of integers or booleans."""
        actual, expected = np.asarray(actual), np.asarray(expected)
        self._differences.append((label, 0.0))
        if actual.shape != expected.shape:
            self._wrong.append(f"{label} is {actual.shape}, expected {expected.shape}")
        elif not np.array_equal(actual, expected):
            count = np.sum(actual != expected)
            self._wrong.append(f"{label} differs in {count} of {expected.size} values")

    def true(self, label: str, condition: bool, message: str) -> None:
        """Takes a condition, and what to say where it fails."""
        self._differences.append((label, 0.0))
        if not condition:
            self._wrong.append(f"{label}: {message}")

    @property
    def count(self) -> int:
        """Number of things compared so far."""
        return len(self._differences)

    def result(self) -> CheckResult:
        """Returns the outcome; the detail names what differs, or the largest difference."""
        if self._wrong:
            return CheckResult(self.name, False, "; ".join(self._wrong))
        if not self.count:
            return CheckResult(self.name, False, "nothing was compared")
        label, worst = max(self._differences, key=lambda pair: pair[1])
        detail = f"{self.count} compared"
        if worst:
            detail += f", largest difference {worst:.1e} ({label})"
        return CheckResult(self.name, True, detail)


def guarded(name: str, checks: Callable[[], Iterable[CheckResult]]) -> Iterator[CheckResult]:
    """Yields the results of `checks()`, and a failure if it raises or yields nothing."""
    found = False
    try:
        for result in checks():
            found = True
            yield result
    except Exception as error:
        found = True
        yield CheckResult(name, False, f"{type(error).__name__}: {error}")
    if not found:
        yield CheckResult(name, False, "nothing was compared")
