"""Tiny runs that learn nothing, and what training says about them."""

import pathlib
import shutil
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from electra_tf.training.monitoring.run_info import (
    DATA_STATISTICS,
    ENVIRONMENT,
    LOG_FILE,
    read_log,
    read_run_info,
)
from tests import pretraining_runs
from tests.conftest import SEQ_LENGTH, make_record


def test_a_run_that_learns_nothing_is_told_so(make_config, capsys, unfused):
    lines: list[str] = []
    config = make_config(
        num_train_steps=12, num_warmup_steps=0, learning_rate=1e-9, train_batch_size=32
    )
    pretraining_runs.train(config, lines.append)
    data = read_run_info(config.model_dir)[DATA_STATISTICS]
    assert 1 / 40 < data["unigram_accuracy"] < 0.1
    assert data["unknown_share"] == 0
    assert "tensorflow" in read_run_info(config.model_dir)[ENVIRONMENT]
    (auc,) = [line for line in lines if "does not tell replaced tokens" in line]
    assert auc.startswith("Health:      since step ")
    assert "Try first: --learning_rate, --generator_hidden_size" in auc
    # The same is said while it trains, once.
    assert capsys.readouterr().out.count("does not tell replaced tokens") == 1
    assert len(read_log(pathlib.Path(config.model_dir, LOG_FILE))) >= 6
    (small,) = [line for line in lines if "updates change no layer by more than" in line]
    assert "Try first: --learning_rate, --clip_norm" in small


def test_a_rate_that_is_far_too_high_is_recognized(make_config, unfused):
    lines: list[str] = []
    config = make_config(
        num_train_steps=30,
        num_warmup_steps=0,
        learning_rate=1.0,
        log_steps=2,
        save_checkpoints_steps=30,
        train_batch_size=32,
    )
    pretraining_runs.train(config, lines.append)
    (large,) = [line for line in lines if "an update changes the weights of" in line]
    assert "Try first: --learning_rate, --num_warmup_steps" in large
    # What else is wrong in the end depends on how the processor rounds.
    others = [line for line in lines if line.startswith("Health:") and line != large]
    assert any("the generator" in line or "discriminator" in line for line in others), lines


def test_a_text_of_one_word_leaves_nothing_to_detect(make_config, tiny_data, tmp_path, unfused):
    data = tmp_path / "one.tfrecord"
    write_copies([data], [2, *[7] * (SEQ_LENGTH - 2), 3])
    lines: list[str] = []
    config = make_config(
        pretrain_tfrecords=str(data),
        num_train_steps=20,
        num_warmup_steps=0,
        learning_rate=1e-2,
        log_steps=2,
        save_checkpoints_steps=20,
        train_batch_size=32,
    )
    pretraining_runs.train(config, lines.append)
    (found,) = [line for line in lines if "hardly any tokens are replaced" in line]
    assert "with a masking rate of 15%" in found
    assert "Try first: --disallow_correct, --generator_hidden_size" in found


def test_records_of_another_vocabulary_are_recognized(
    make_config, tiny_data, tmp_path, unfused
):
    data = tmp_path / "unknown"
    shutil.copytree(tiny_data, data)
    ids = [2, *[1, 7] * ((SEQ_LENGTH - 2) // 2), 3]
    ids += [3] * (SEQ_LENGTH - len(ids))
    write_copies((data / "pretrain_tfrecords").iterdir(), ids)
    lines: list[str] = []
    config = make_config(data_dir=str(data), num_train_steps=2)
    pretraining_runs.train(config, lines.append)
    (found,) = [line for line in lines if line.startswith("Health:")]
    assert "since step 0: 50.0% of the words of the records are unknown" in found
    assert "--vocab_file, --do_lower_case" in found


def write_copies(paths: Iterable[pathlib.Path], ids: list[int]) -> None:
    """Writes files of 25 records with these tokens."""
    example = tf.train.Example.FromString(make_record(np.random.default_rng(1), SEQ_LENGTH))
    example.features.feature["input_ids"].int64_list.value[:] = ids
    example.features.feature["input_mask"].int64_list.value[:] = [1] * SEQ_LENGTH
    for path in paths:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for _ in range(25):
                writer.write(example.SerializeToString())
