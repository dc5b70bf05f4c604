"""The benchmark of growing cost: one tiny point, its files, and processes that fail."""

import json
import pathlib
import subprocess
import sys

import matplotlib.image
import pytest

from benchmarks import worker_processes
from benchmarks.cost_plots import plot_growth
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.errors import UserError
from pretrain_data.records.checks import find_checked_record_files

REPOSITORY = pathlib.Path(__file__).parents[2]


def _run(*flags: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.cost_growth", "--noprocesses", *flags],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def test_a_point_of_several_sweeps_is_measured_once(tmp_path):
    base = ["--batch_size=1", "--length=16", "--base_layers=1", "--steps=1", "--rounds=2"]
    lists = ["--batch_sizes=1", "--lengths=16", "--layers=1", "--vocabularies=30522"]
    ran = _run(*base, *lists, f"--output_dir={tmp_path}")
    assert ran.returncode == 0, ran.stderr
    assert "1/1: 1 x 16 tokens, 1 layers, 30,522 words" in ran.stderr
    written = json.loads((tmp_path / "cost_growth.json").read_text())
    sweeps = written["sweeps"]
    assert list(sweeps) == ["batch", "length", "layers", "vocabulary"]
    (point,) = sweeps["batch"]
    assert all(sweep == [point] for sweep in sweeps.values())
    assert len(point["seconds"]) == 2
    assert point["peak_bytes"] > 2e8  # TensorFlow alone is larger
    assert written["processes"] == []
    assert {path.name for path in tmp_path.glob("*.png")} == {f"{n}.png" for n in sweeps}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--lengths=16,x", "--lengths: 'x' is no whole number of at least 8"),
        ("--vocabularies=100", "--vocabularies: '100' is no whole number of at least 1001"),
        ("--batch_sizes=0", "--batch_sizes: '0' is no whole number of at least 1"),
    ],
)
def test_lists_are_checked_first(tmp_path, flag, message):
    ran = _run(flag, f"--output_dir={tmp_path / 'new'}")
    assert ran.returncode == 1
    assert message in ran.stderr
    assert not (tmp_path / "new").exists()


def test_pictures_are_of_one_size(tmp_path):
    for name, sizes in (("few", [1, 2]), ("many", [1, 2, 4, 8])):
        values = [3 * size for size in sizes]
        plot_growth(tmp_path / f"{name}.png", "batch", sizes, values, values, values)
    few, many = (matplotlib.image.imread(tmp_path / f"{n}.png") for n in ("few", "many"))
    assert few.shape == many.shape
    assert (few != many).any()


def test_records_are_whole_and_their_vocabulary_has_its_size(tmp_path):
    config = PretrainingConfig.create(
        data_dir="d", model_name="m", vocab_size=1200, max_seq_length=16
    )
    worker_processes.write_random_records(tmp_path, config)
    words = (tmp_path / "vocab.txt").read_text().split()
    assert len(set(words)) == 1200
    assert [words[i] for i in (0, 100, 101, 102, 103)] == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    pattern = str(tmp_path / "pretrain_tfrecords" / "*")
    assert len(find_checked_record_files(pattern, 16, "--flag")) == 2


def test_a_process_that_fails_ends_the_wait(tmp_path):
    log = tmp_path / "log"
    log.write_text("error: no such thing\n")
    processes = [
        subprocess.Popen([sys.executable, "-c", code])
        for code in ("import time; time.sleep(60)", "raise SystemExit(3)")
    ]
    try:
        with pytest.raises(UserError, match="status 3: error: no such thing"):
            worker_processes.wait(processes, [log, log])
        assert processes[0].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_ports_differ():
    assert len(set(worker_processes.free_ports(5))) == 5
