"""benchmarks.length_buckets_child: what a child answers, and the steps that it samples."""

import io
import json
import sys

import numpy as np
import pytest

from benchmarks import length_buckets_child as child
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.data.batches import count_steps
from tests.conftest import tiny_settings

SHORT, LONG = 12, 6  # training examples of 3 and of 11 tokens, with [CLS] and [SEP]


@pytest.fixture
def config(tiny_data, tmp_path) -> FinetuningConfig:
    folder = tmp_path / "finetuning_data" / "sst"
    folder.mkdir(parents=True)
    rows = [f"{' '.join(['w1'] * 9 if i < LONG else ['w1'])}\t{i % 2}" for i in range(18)]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    tiny = tiny_settings(tiny_data, tmp_path)
    return FinetuningConfig.create(
        data_dir=str(tmp_path),
        model_name="random",
        init_checkpoint=RANDOM_INIT,
        vocab_file=str(tiny_data / "vocab.txt"),
        vocab_size=tiny["vocab_size"],
        embedding_size=tiny["embedding_size"],
        model_hparam_overrides=tiny["model_hparam_overrides"],
        task_names=("sst",),
        max_seq_length=16,
        length_buckets=(8, 16),
        train_batch_size=4,
        num_train_epochs=2.0,
        model_dir=str(tmp_path / "model"),
        results_dir=str(tmp_path / "results"),
        preprocessed_data_dir=str(tmp_path / "features"),
    )


def test_a_child_says_how_it_started_and_times_the_steps_it_is_asked_for(config, monkeypatch):
    answers = io.StringIO()
    monkeypatch.setattr(sys, "stdout", answers)
    monkeypatch.setattr(sys, "stdin", io.StringIO("run\nrun\n"))
    child.serve(config.to_json(), "3")
    started, *seconds = map(json.loads, answers.getvalue().splitlines())
    start = child.Start(**started)
    steps = count_steps(SHORT + LONG, config.train_batch_size, config.num_train_epochs)
    assert start.num_train_steps == steps == sum(start.lengths.values())
    assert start.lengths.keys() == {"8", "16"}
    slots = config.train_batch_size * sum(int(k) * n for k, n in start.lengths.items())
    tokens = config.train_batch_size * steps * (SHORT * 3 + LONG * 11) / (SHORT + LONG)
    assert start.padding == pytest.approx(1 - tokens / slots, abs=0.05)
    # Both lengths were compiled in the first pass.
    assert start.compilation == pytest.approx(start.first_pass - start.second_pass)
    assert len(seconds) == 2
    assert all(0 < each < start.first_pass for each in seconds)


def test_sampled_steps_have_the_mix_of_lengths_of_the_plan():
    lengths = np.array([16, 8, 8, 16, 8, 8, 8, 8, 16, 16, 8, 8])  # two of three are short
    sampled = child.sampled_steps(lengths, 6)
    assert sorted(lengths[sampled].tolist()) == [8, 8, 8, 8, 16, 16]
    assert sampled.tolist() == sorted(set(sampled.tolist()))
    again = child.sampled_steps(lengths, 24)
    assert np.bincount(lengths[again])[[8, 16]].tolist() == [16, 8]
