"""What a reference check found."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """Outcome of comparing one thing with the reference data.

    Attributes:
        name: what was compared.
        passed: whether it agrees.
        detail: counts or differences, in one line.
    """

    name: str
    passed: bool
    detail: str
