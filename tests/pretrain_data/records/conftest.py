"""Records that differ in their ids."""

import pytest

from tests.pretrain_data.records.shards import SHARDS, write_shard


@pytest.fixture
def records(tmp_path):
    """Five shards; example k has the id 10 + k everywhere. Gives their wildcard."""
    first = 10
    for shard, count in enumerate(SHARDS):
        write_shard(tmp_path / f"data-{shard}", range(first, first + count))
        first += count
    return f"{tmp_path}/data-*"
