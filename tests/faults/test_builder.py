"""What builders read: a long line, every code point, links in circles; what judges them.

`make soak` tries more, on the programs themselves.
"""

import json
import pathlib
import resource

import pytest

from electra_tf.util.errors import UserError
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.dataset import build_pretraining_data
from pretrain_data.corpus.inputs import find_corpus
from pretrain_data.records.manifest import mark_unfinished
from tests.conftest import ROOT
from tests.faults.build_texts import every_code_point, write_long_line
from tests.faults.built import NEW, NONE, OLD, REFUSED, judge
from tests.faults.starts import Server

VOCAB_FILE = ROOT / "demo/vocab.txt"


def build(folder: pathlib.Path) -> dict:
    config = CorpusBuildConfig(folder / "corpus", VOCAB_FILE, folder / "records")
    build_pretraining_data(config, lambda message: None)
    return json.loads((folder / "records/pretrain_data.json").read_text())


def memory_of_lines(folder: str, sizes: tuple[float, ...]) -> list[tuple[float, dict]]:
    found = []
    for size in sizes:
        place = pathlib.Path(folder, f"{size}")
        (place / "corpus").mkdir(parents=True)
        write_long_line(place / "corpus/a.txt", "words", size)
        manifest = build(place)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found.append((peak, manifest))
    return found


def test_a_long_line_takes_bounded_memory(tmp_path):
    """Twenty megabytes in one line; the line alone took 15 times its size."""
    (short, _), (long, manifest) = Server().call(memory_of_lines, str(tmp_path), (1.0, 20.0))
    assert manifest["num_lines"] == 1
    read = manifest["num_tokens_read"]
    assert manifest["num_tokens_written"] == read > 3_500_000
    assert long - short < 100


def test_every_code_point_of_a_plane_is_built(tmp_path):
    (tmp_path / "corpus").mkdir()
    every_code_point(tmp_path / "corpus/a.txt", last=0xFFFF)
    manifest = build(tmp_path)
    assert manifest["invalid_utf8"] == {}
    assert manifest["num_tokens_written"] == manifest["num_tokens_read"] > 3 * 40_000


def test_links_in_circles_are_read_once(tmp_path):
    (tmp_path / "a.txt").write_text("the sea\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/up").symlink_to(tmp_path)
    (tmp_path / "here").symlink_to(tmp_path)
    assert [part.path for part in find_corpus(tmp_path).parts] == [tmp_path / "a.txt"]
    (tmp_path / "own.txt").symlink_to(tmp_path / "own.txt")
    with pytest.raises(UserError, match=r"own\.txt .* cannot be read: Too many levels"):
        find_corpus(tmp_path)


def test_half_a_shard_is_found(tmp_path):
    old, new = {"pretrain_data.tfrecord-0": b"old"}, {"pretrain_data.tfrecord-0": b"new"}
    assert judge(tmp_path / "records", {}, new) == (NONE, [])
    (tmp_path / "records/.building-1").mkdir(parents=True)
    shard = tmp_path / "records/pretrain_data.tfrecord-0"
    (tmp_path / "records/.building-1/pretrain_data.tfrecord-0").write_bytes(b"n")
    for content, outcome in ((b"old", OLD), (b"new", NEW)):
        shard.write_bytes(content)
        assert judge(tmp_path / "records", old, new) == (outcome, [])
    shard.write_bytes(b"n")
    assert "neither the old nor the new" in judge(tmp_path / "records", old, new)[1][0]
    mark_unfinished(tmp_path / "records")
    assert judge(tmp_path / "records", old, new)[0] == REFUSED
