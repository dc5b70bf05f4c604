"""The training log: rates and what is derived from them."""

import io
import json
import os
import pathlib
import stat
import time

import pytest
import tensorflow as tf

from electra_tf.text.inspected_tokens import InspectedToken
from electra_tf.training.monitoring.diagnoses import RunFacts
from electra_tf.training.monitoring.health import facts_of
from electra_tf.training.monitoring.log import TrainLog, Utilization
from electra_tf.training.monitoring.run_info import (
    LOG_FILE,
    RUN_INFO_FILE,
    SENTENCES_FILE,
    read_log,
    read_run_info,
    read_sentences,
    training_seconds,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


def read(log: TrainLog) -> list[dict]:
    return [json.loads(line) for line in pathlib.Path(log.path).read_text().splitlines()]


def test_the_mfu_follows_the_stage_and_the_sequence_length(tmp_path):
    console = io.StringIO()
    log = TrainLog(
        str(tmp_path),
        first_step=0,
        num_train_steps=100,
        batch_size=8,
        seq_length=16,
        utilization=Utilization(1e9, {(0, 16): 1e6, (1, 16): 3e6, (1, 32): 2.5e6}),
        stream=console,
    )
    log.training(10, {"loss": 1.0})
    log.set_phase(32, 1)
    log.training(20, {"loss": 1.0})
    log.set_phase(64, 1)  # unknown
    log.training(30, {"loss": 1.0})
    log.close()
    first, second, third = read(log)
    assert first["mfu"] == pytest.approx(first["steps_per_second"] * 1e6 / 1e9)
    assert second["mfu"] == pytest.approx(second["steps_per_second"] * 2.5e6 / 1e9)
    assert "mfu" not in third
    assert console.getvalue().count("MFU") == 2


def test_the_time_left_includes_the_clock_stopped_but_the_rates_do_not(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = start(tmp_path)
    now[0] += 3.0  # of the steps up to 30, a second each 10
    with log.clock_stopped():
        now[0] += 1000.0
    now[0] += 2.0
    log.training(50, {"loss": 1.0})
    with log.clock_stopped():
        now[0] += 1000.0
    now[0] += 4.0
    log.training(90, {"loss": 1.0})
    log.close()
    # The clock is stopped for 20 seconds a step up to 50, and for 22.2 up to 90.
    for record, left in zip(read(log), (5.0 + 1000.0, 1.0 + 2000.0 / 9), strict=True):
        assert record["steps_per_second"] == pytest.approx(10)
        assert record["sequences_per_second"] == pytest.approx(80)
        assert record["seconds_left"] == pytest.approx(left)


@pytest.mark.parametrize(
    ("facts", "flag"),
    [
        (facts_of({"num_train_steps": 100}), "--save_checkpoints_steps"),
        (facts_of({"task_names": ["cola"]}, num_train_steps=100), "--eval_steps"),
    ],
)
def test_evaluations_that_take_longer_than_training_are_warned_of(
    facts, flag, tmp_path, monkeypatch, capsys
):
    warn_once.cache_clear()
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = start(tmp_path, facts=facts)
    # Too short to tell; shorter than the training; longer.
    for step, training, stopped, warned in [(10, 9, 250, 0), (20, 991, 700, 0), (30, 9, 90, 1)]:
        now[0] += training
        with log.clock_stopped():
            now[0] += stopped
        log.training(step, {"loss": 1.0})
        assert capsys.readouterr().err.count(flag) == warned
    log.close()


def test_rates_of_steps_that_are_compiled_are_marked_on_the_console(tmp_path):
    stream = io.StringIO()
    log = TrainLog(
        str(tmp_path), first_step=0, num_train_steps=100, batch_size=8, stream=stream
    )
    for step, length in ((0, 64), (20, None), (40, 128), (60, None)):
        if length:
            log.set_phase(length)
        log.training(step + 20, {"loss": 1.0})
    log.close()
    lines = stream.getvalue().splitlines()
    marked = [" seq/s (with compilation)  " in line for line in lines]
    assert marked == [True, False, True, False]


def test_a_start_between_two_records_is_logged(tmp_path, monkeypatch):
    """Else the steps before it would seem as slow as those that it compiles."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = start(tmp_path)
    now[0] += 20.0
    log.training(20, {"loss": 1.0})
    log.close()
    for _ in range(2):  # the first of which is killed before its first record
        log = start(tmp_path, first_step=38)
    now[0] += 60.0
    log.training(40, {"loss": 1.0})
    log.close()
    start(tmp_path, first_step=40).close()
    assert [(r["kind"], r["step"]) for r in read(log)] == [
        ("train", 20),
        ("start", 38),
        ("train", 40),
    ]
    assert training_seconds(read(log)) == pytest.approx(80.0 * 40 / 22)


SENTENCES = [[InspectedToken("the", "the", 0.1), InspectedToken("dog", "cat", 0.87654)]]


def start(folder: pathlib.Path, first_step: int = 0, facts: RunFacts | None = None) -> TrainLog:
    return TrainLog(
        str(folder),
        first_step=first_step,
        num_train_steps=100,
        batch_size=8,
        facts=facts,
        stream=io.StringIO(),
    )


def test_sentences_are_logged_and_those_of_repeated_steps_dropped(tmp_path):
    log = start(tmp_path)
    for step in (10, 20):
        log.evaluation(step, {"loss": 1.0}, sentences=SENTENCES)
    log.evaluation(30, {"loss": 1.0})
    log.close()
    first, second = read_sentences(tmp_path)
    assert first == {
        "step": 10,
        "sentences": [[["the", "the", 0.1], ["dog", "cat", 0.877]]],
    }
    assert second["step"] == 20
    assert shown_texts(tmp_path) == [r"the dog?\(cat\)"] * 2
    start(tmp_path, first_step=10).close()
    assert [record["step"] for record in read_sentences(tmp_path)] == [10]
    assert read_sentences(tmp_path / "tensorboard") == []


def test_tensorboard_shows_tokens_as_they_are(tmp_path):
    """Not as a heading, a list and emphasis."""
    log = start(tmp_path)
    words = ("##ly", "-", "*", "a", "*", "1", ".", "[UNK]")
    tokens = [InspectedToken(word, word, 0.1) for word in words]
    log.evaluation(10, {"loss": 1.0}, sentences=[tokens])
    log.close()
    assert shown_texts(tmp_path) == [r"\#\#ly? \-? \*? a? \*? 1? \.? \[UNK\]?"]


def shown_texts(folder: pathlib.Path) -> list[str]:
    (events,) = (folder / "tensorboard").glob("events*")
    return [
        value.tensor.string_val[0].decode()
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
        if value.tag.startswith("held-out sentences")
    ]


def test_tensorboard_is_given_no_python_numbers(tmp_path, monkeypatch):
    """TensorFlow keeps each of them, some 780 bytes, as long as the program runs."""
    given = []
    scalar = tf.summary.scalar

    def note(name, data):
        given.append(data)
        scalar(name, data)

    monkeypatch.setattr(tf.summary, "scalar", note)
    log = TrainLog(
        str(tmp_path), first_step=0, num_train_steps=9, batch_size=1, stream=io.StringIO()
    )
    log.training(3, {"loss": 0.1, "skipped_updates": 2})
    log.close()
    assert len(given) == 5
    assert not any(isinstance(each, float | int) for each in given)
    (path,) = (tmp_path / "tensorboard").iterdir()
    written = {
        value.tag: (event.step, float(tf.make_ndarray(value.tensor)))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert written["train/loss"] == (3, pytest.approx(0.1))
    assert written["train/skipped_updates"] == (3, 2.0)


def test_a_record_that_a_kill_has_truncated_is_dropped(tmp_path):
    log = start(tmp_path)
    log.training(10, {"loss": 1.0})
    log.close()
    path = pathlib.Path(log.path)
    whole = path.read_text()
    for half in ('{"step": 1', "[]\n", '{"kind": "train"}\n'):
        path.write_text(whole + half)
        start(tmp_path, 10).close()
        assert path.read_text() == whole


def test_a_record_of_which_only_the_end_of_line_is_missing_is_kept(tmp_path):
    log = start(tmp_path)
    log.training(10, {"loss": 1.0})
    log.close()
    path = pathlib.Path(log.path)
    path.write_text(path.read_text().removesuffix("\n"))
    log = start(tmp_path, 10)
    log.training(20, {"loss": 1.0})
    log.close()
    assert [record["step"] for record in read_log(path)] == [10, 20]


def test_a_kill_within_a_character_of_a_sentence_is_survived(tmp_path):
    log = start(tmp_path)
    korean = [[InspectedToken("개", "개", 0.1)]]
    for step in (10, 20):
        log.evaluation(step, {"loss": 1.0}, sentences=korean)
    log.close()
    path = tmp_path / SENTENCES_FILE
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex("개".encode()) + 1])
    assert [record["step"] for record in read_sentences(tmp_path)] == [10]
    start(tmp_path, 20).close()
    assert path.read_bytes() == content.splitlines(keepends=True)[0]


def test_a_full_disk_is_said_of_its_file(tmp_path):
    log = start(tmp_path)
    (tmp_path / SENTENCES_FILE).symlink_to("/dev/full")
    message = "cannot be written: No space left on device"
    with pytest.raises(UserError, match=f"^{tmp_path / SENTENCES_FILE} {message}"):
        log.evaluation(1, {"loss": 1.0}, sentences=SENTENCES)
    log._file.close()
    log._file = open("/dev/full", "a")  # noqa: SIM115
    for write in (lambda: log.training(1, {"loss": 1.0}), log.close):
        with pytest.raises(UserError, match=f"^{log.path} {message}"):
            write()


def test_logs_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / SENTENCES_FILE
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match=f"^{path}: line 1 is not UTF-8"):
        read_sentences(tmp_path)
    path.write_text('{"step": 1, "sentences": []}\n[]\n{"step": 2, "sentences": []}\n')
    with pytest.raises(UserError, match=f"^{path}, line 2: not a log record"):
        read_sentences(tmp_path)
    path.write_text('{"step": 1, "sentences": []}\n{"st')
    assert [record["step"] for record in read_sentences(tmp_path)] == [1]


def test_a_log_that_is_read_while_it_is_written_lacks_half_a_line(tmp_path, capsys):
    warn_once.cache_clear()
    path = tmp_path / LOG_FILE
    path.write_text('{"step": 1, "kind": "train", "loss": null}\n{"step": 2, "ki')
    assert read_log(path) == [{"step": 1, "kind": "train", "loss": None}]
    assert f"{path}: the last line is incomplete and ignored" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        '{"step": "2", "kind": "train"}',
        '{"step": 2}',
        '{"step": 2, "kind": "eval", "loss": "0.1"}',
        '{"step": 2, "kind": "train", "steps_per_second": NaN}',
        "[" * 100_000,
        "\0\0",
    ],
    ids=["step", "kind", "text", "nan", "nested", "zeros"],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, capsys):
    good = '{"step": 1, "kind": "train", "loss": 1.0}\n'
    path = tmp_path / LOG_FILE
    path.write_text(f"{good}{line}\n{good}")
    with pytest.raises(UserError, match=rf"^{path}, line 2: not a log record.* Remove"):
        read_log(path)


def test_a_resumed_run_says_what_it_removes_of_a_damaged_log(tmp_path, capsys):
    warn_once.cache_clear()
    good = '{"step": 1, "kind": "train", "loss": 1.0}\n'
    path = tmp_path / LOG_FILE
    path.write_text(f"{good}\0\0\n{good}" + '{"step": 3, "kind": "tr')
    start(tmp_path, 1).close()
    assert path.read_text() == good + good
    expected = f"{path}, line 2: removed, because it is not a log record"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must contain a JSON object"),
        ('{"environment": 1}', "environment must be a JSON object"),
        ('{"data": {"unknown_share": "much"}}', "unknown_share must be a number, not 'much'"),
    ],
)
def test_a_damaged_run_info_is_named_and_may_be_removed(tmp_path, content, message):
    path = tmp_path / RUN_INFO_FILE
    path.write_text(content)
    with pytest.raises(UserError, match=rf"^{path}:? {message}.* Remove the file: a resumed"):
        read_run_info(tmp_path)


def test_a_group_may_go_on_with_the_files_of_tensorboard(tmp_path):
    before = os.umask(0o002)
    try:
        start(tmp_path / "model").close()
    finally:
        os.umask(before)
    for folder in (tmp_path / "model", tmp_path / "model/tensorboard"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o775


def test_tensorboard_files_that_cannot_be_written_are_named(tmp_path, monkeypatch):
    log = start(tmp_path)

    def fail(*_, **__) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.summary, "scalar", fail)
    with pytest.raises(
        UserError, match=f"^{log.tensorboard_dir} cannot be written: .*No space"
    ):
        log.training(10, {"loss": 1.0})
    log.close()
