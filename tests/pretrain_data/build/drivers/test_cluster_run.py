"""Tests of builds with Apache Beam, which needs an environment of its own (extra `beam`)."""

import importlib.util
import json
import pathlib
import sys
from collections import Counter

import pytest
import tensorflow as tf

from electra_tf.text import tokenizer
from electra_tf.util.errors import UserError
from electra_tf.util.paths import as_path
from pretrain_data.build import corpus_builder
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.dataset import build_pretraining_data
from pretrain_data.build.drivers import cluster_work
from pretrain_data.build.drivers.cluster_run import ClusterRun
from pretrain_data.parallel.counts import WorkerError
from pretrain_data.records.manifest import Manifest, load_manifest
from tests.pretrain_data.build.test_dataset import read_shards, run_program
from tests.pretrain_data.conftest import corpus_text

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="needs electra-tf[beam]"
)
# What tells how records were built, not which.
ORDER = ("shards", "shard_bytes", "shard_sha256", "num_processes")


# Of Beam 2.77, on a machine without a network.
NO_JAR = (
    "Unable to fetch remote job server jar at https://host/beam-runners-spark-3-job-server-2.77.0"
    ".jar: <urlopen error>. If no Internet access at runtime, stage the jar at jars/"
)


@pytest.fixture
def corpus(tmp_path) -> pathlib.Path:
    """Several units, with documents that repeat."""
    directory = tmp_path / "corpus"
    directory.mkdir()
    (directory / "a.txt").write_text(corpus_text(1, num_documents=60))
    lines = [json.dumps({"text": corpus_text(i % 9, 1)}) for i in range(30)]
    (directory / "b.jsonl").write_text("\n".join([*lines, '{"text": null}']))
    return directory


@pytest.fixture
def build(tmp_path, corpus, demo_vocab_file, monkeypatch, vocabulary):
    """Builds records with or without Beam, in a folder of their own."""
    one = tokenizer.Tokenizer(vocabulary)
    monkeypatch.setattr(tokenizer, "Tokenizer", lambda *settings: one)

    def build_with(name: str, driver=None, **settings) -> pathlib.Path:
        arguments = {"max_seq_length": 32, "num_out_files": 5, "inputs": (str(corpus),)}
        arguments |= {"output_dir": tmp_path / name} | settings
        config = CorpusBuildConfig(None, demo_vocab_file, **arguments)
        build_pretraining_data(config, lambda message: None, driver)
        return tmp_path / name

    return build_with


def contents(directory: pathlib.Path) -> tuple[Counter, dict]:
    """Returns the records, and the manifest without what depends on their order."""
    manifest = load_manifest(directory)
    assert isinstance(manifest, Manifest)
    fields = {k: v for k, v in vars(manifest).items() if k not in ORDER}
    return Counter(read_shards(directory)), fields


@needs_beam
@pytest.mark.parametrize(
    "settings",
    [{}, {"eval_fraction": 0.2, "pack": True}, {"eval_fraction": 0.2, "deduplicate": "exact"}],
)
def test_beam_builds_the_examples_of_one_machine(build, settings):
    here = build("here", **settings)
    beam = build("beam", runner="DirectRunner", **settings)
    assert contents(beam) == contents(here)
    assert bool(load_manifest(here).num_duplicates) == ("deduplicate" in settings)
    assert not list(beam.glob(".building-*"))
    if "eval_fraction" in settings:
        assert contents(beam / "held_out") == contents(here / "held_out")
    # Shuffled: neighbors in the corpus are in different shards.
    first = read_shards(here)[:20]
    shard = {name: load_manifest(beam).shards[name] for name in load_manifest(beam).shards}
    assert min(shard.values()) > 0
    assert [r for r in read_shards(beam) if r in first] != first


@needs_beam
def test_a_bundle_that_is_tried_again_loses_and_doubles_nothing(build, monkeypatch):
    from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner

    settings = {"eval_fraction": 0.2, "deduplicate": "exact"}
    here = build("here", **settings)
    failures = Counter()
    build_unit, rename = corpus_builder.CorpusBuilder.build, cluster_work.rename

    def fail_after_some(self, unit, fates=None):
        for built in build_unit(self, unit, fates):
            yield built
            # Beam gives up a bundle after four failures.
            if unit.index in (2, 4) and not failures[unit.index]:
                failures[unit.index] += 1
                raise OSError("the worker died")

    def fail_after_naming(source, target):
        rename(source, target)
        if "-of-5" in target and sum(failures.values()) < 4 and not failures[target]:
            failures[target] += 1
            raise OSError("the worker died")

    monkeypatch.setattr(corpus_builder.CorpusBuilder, "build", fail_after_some)
    monkeypatch.setattr(cluster_work, "rename", fail_after_naming)
    driver = ClusterRun(BundleBasedDirectRunner())
    beam = build("beam", driver, runner="DirectRunner", **settings)
    assert sum(failures.values()) == 4
    assert contents(beam) == contents(here)
    assert contents(beam / "held_out") == contents(here / "held_out")


@needs_beam
def test_text_and_records_may_be_remote(build, corpus):
    tf.io.gfile.makedirs("ram://beam/text")
    for path in corpus.iterdir():
        tf.io.gfile.copy(str(path), f"ram://beam/text/{path.name}", overwrite=True)
    settings = {"eval_fraction": 0.2, "deduplicate": "exact"}
    here = build("here", **settings)
    records = as_path("ram://beam/records")
    text = ("ram://beam/text",)
    build("none", runner="DirectRunner", inputs=text, output_dir=records, **settings)
    found = tf.data.TFRecordDataset(tf.io.gfile.glob("ram://beam/records/pretrain_data.tf*"))
    assert Counter(found.as_numpy_iterator()) == contents(here)[0]


@needs_beam
def test_a_failure_is_one_line_and_leaves_nothing(build, corpus, tmp_path, monkeypatch):
    (corpus / "c.jsonl").write_text('{"text": "fine"}\n{"text": 5}\n')
    with pytest.raises(UserError, match=r"^Corpus file .*c\.jsonl .*'text'.*a number$"):
        build("beam", runner="DirectRunner")
    (corpus / "c.jsonl").unlink()

    def fail(*_):
        raise IndexError("boom")

    monkeypatch.setattr("electra_tf.text.cached_tokenizer.CorpusTokenizer.tokenize", fail)
    with pytest.raises(WorkerError, match="boom"):
        build("beam", runner="DirectRunner")
    assert not (tmp_path / "beam").exists()


@needs_beam
def test_a_missing_job_server_is_one_line(build, monkeypatch):
    def fail(*_):
        raise RuntimeError(NO_JAR)

    monkeypatch.setattr(ClusterRun, "_run_pipeline", fail)
    message = (
        r"=SparkRunner needs Beam's job server.*2\.77\.0\.jar: .*--spark_job_server_jar=FILE"
    )
    with pytest.raises(UserError, match=message):
        build("beam", runner="SparkRunner")


@needs_beam
@pytest.mark.parametrize(
    ("runner", "options", "message"),
    [
        ("DirectRunner", ("--nonsense=1",), "Beam does not know nonsense$"),
        ("DirectRunner", ("--direct_num_workers=x",), "argument --direct_num_workers: invalid"),
        ("DataflowRunner", ("--project=p",), r".*Missing required option: region\."),
    ],
)
def test_options_that_beam_does_not_take_are_named(build, runner, options, message):
    with pytest.raises(UserError, match=f"^--pipeline_options: {message}"):
        build("none", runner=runner, pipeline_options=options)


@needs_beam
def test_the_program_runs_several_processes_of_beam(corpus, tmp_path, demo_vocab_file):
    flags = [f"--input={corpus}", f"--vocab-file={demo_vocab_file}", "--num-out-files=3"]
    result = run_program(
        *flags, f"--output-dir={tmp_path}/beam", "--runner=DirectRunner", "--num-processes=2"
    )
    assert result.returncode == 0
    assert "Traceback" not in result.stderr  # Beam's workers print some lines
    # They had no options at all: not those of --pipeline_options, nor the level of messages.
    assert "INFO:apache_beam" not in result.stderr
    assert "Building with DirectRunner" in result.stdout
    result = run_program(*flags, f"--output-dir={tmp_path}/here")
    assert result.returncode == 0
    assert contents(tmp_path / "beam") == contents(tmp_path / "here")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"runner": "Direct"}, "--runner must be one of DirectRunner, Fl.*not Direct"),
        ({"deduplicate": "near"}, "FlinkRunner does not support --deduplicate=near"),
        ({"num_processes": 2}, "FlinkRunner does not support --num-processes"),
        ({"is_openwebtext": True}, "does not support the archives"),
        ({"runner": None, "pipeline_options": ("--x",)}, "--pipeline_options needs --runner"),
    ],
)
def test_what_beam_does_not_do_is_refused(build, settings, message, monkeypatch):
    # As in an environment with Beam alone.
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(UserError, match=message):
        build("none", **{"runner": "FlinkRunner", **settings})


@pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is not None, reason="Beam is installed"
)
def test_without_beam_the_extra_is_named(build):
    with pytest.raises(UserError, match=r"--runner needs apache_beam.*electra-tf\[beam\]"):
        build("none", runner="DirectRunner")
