"""Models whose layers could be confused."""

import pytest


@pytest.fixture
def num_layers() -> int:
    return 2
