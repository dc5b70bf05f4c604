"""Figures are drawn here."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def figures() -> None:
    """Draws them, other than the other tests of fine-tuning."""
