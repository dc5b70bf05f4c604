"""The record files that flags name, for training and evaluation."""

import dataclasses
import json
import os
import pathlib

import pytest

from electra_tf.model_builder import load_checked_vocabulary
from electra_tf.pretraining.setup import tokenizer_of
from electra_tf.training.distribution.shards import UNSHARDED
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from flags.records import (
    count_trained_tokens,
    evaluated_records,
    held_out_records,
    training_records,
    warn_of_shared_files,
    warn_of_shared_shards,
)


def test_evaluated_files_that_are_trained_on_are_warned_of(make_config, tiny_data, capsys):
    warn_once.cache_clear()
    folder = tiny_data / "pretrain_tfrecords"
    config = make_config(
        pretrain_tfrecords=f"{folder}/*-0-of-2",
        eval_tfrecords=os.path.relpath(folder / "pretrain_data.tfrecord*"),
    )
    records = training_records(config)
    warn_of_shared_files(records, held_out_records(config))
    error = capsys.readouterr().err
    assert "1 of 2 evaluated files are trained on, such as" in error
    assert "tfrecord-0-of-2" in error
    other = make_config(eval_tfrecords=f"{folder}/*-1-of-2")
    warn_of_shared_files(records, held_out_records(other))
    assert capsys.readouterr().err == ""
    assert records.describe(16) == f"1 file in {folder}"


def test_copies_of_the_trained_files_are_warned_of(make_config, tiny_data, tmp_path, capsys):
    folder = tiny_data / "pretrain_tfrecords"
    for number in range(2):
        content = (folder / f"pretrain_data.tfrecord-{number}-of-2").read_bytes()
        (tmp_path / f"held_out-{number}").write_bytes(content)
    config = make_config(do_train=False, do_eval=True, eval_tfrecords=f"{tmp_path}/held_out-*")
    for records in (training_records(config), None):
        warn_once.cache_clear()
        if records:
            warn_of_shared_files(records, held_out_records(config))
        else:
            warn_of_shared_shards(config, evaluated_records(config))
        assert "2 of 2 evaluated files are trained on, such as" in capsys.readouterr().err


def test_evaluating_some_of_the_trained_files_is_warned_of(
    make_config, tiny_data, tmp_path, capsys
):
    warn_once.cache_clear()
    folder = tiny_data / "pretrain_tfrecords"
    every = make_config(do_train=False, do_eval=True)
    warn_of_shared_shards(every, evaluated_records(every))
    one = make_config(do_train=False, do_eval=True, eval_tfrecords=f"{folder}/*-0-of-2")
    moved = dataclasses.replace(one, pretrain_tfrecords=str(tmp_path / "gone*"))
    warn_of_shared_shards(moved, evaluated_records(moved))
    assert capsys.readouterr().err == ""
    warn_of_shared_shards(one, evaluated_records(one))
    assert "1 of 1 evaluated files are trained on, such as" in capsys.readouterr().err


def test_results_do_not_replace_the_records(make_config, tiny_data):
    path = str(tiny_data / "pretrain_tfrecords" / "pretrain_data.tfrecord-1-of-2")
    given = {"do_train": False, "do_eval": True, "results_pkl": path}
    for more, flag in (({}, "--pretrain_tfrecords"), ({"eval_tfrecords": path}, "--eval_tf")):
        with pytest.raises(UserError, match=rf"--results_pkl=.* is the file that {flag}"):
            evaluated_records(make_config(**given, **more))


def test_token_frequencies_of_other_records_than_those_of_the_training_are_told(
    make_config, tiny_data, capsys
):
    warn_once.cache_clear()
    config = make_config(do_train=False, do_eval=True)
    digest = training_records(config).fingerprint(16)
    folder = pathlib.Path(config.model_dir)
    folder.mkdir()
    for recorded, is_told in (({"16": digest}, False), (None, False), ({"16": "d"}, True)):
        content = {"hyperparameters": {"data": recorded}, "variables": {}}
        (folder / "config.json").write_text(json.dumps(content))
        assert count_trained_tokens(config, config.vocab_size).sum() > 0
        assert ("was trained on other records" in capsys.readouterr().err) is is_told


def test_records_of_which_none_is_good_are_refused_before_the_training(
    make_config, tiny_data, tmp_path, capsys
):
    path = tmp_path / "held_out.tfrecord"
    path.write_bytes(b"no record" * 9)
    config = make_config(skip_bad_records=True, eval_tfrecords=str(path))
    vocabulary = load_checked_vocabulary(config)
    tokenizer = tokenizer_of(config, vocabulary)
    training_records(config).check(vocabulary, tokenizer, [16])
    assert (
        capsys.readouterr().out == "Reading 2 files of --pretrain_tfrecords for bad records …\n"
    )
    with pytest.raises(UserError, match=r"from --eval_tfrecords: .* The first: .*at byte 0"):
        held_out_records(config).check(vocabulary, tokenizer, [16])


@pytest.mark.parametrize("do_train", [True, False])
def test_bad_records_that_an_evaluation_skips_are_counted(
    make_config, tiny_data, tmp_path, capsys, do_train
):
    content = (tiny_data / "pretrain_tfrecords/pretrain_data.tfrecord-0-of-2").read_bytes()
    path = tmp_path / "held_out.tfrecord"
    path.write_bytes(content[:-5])
    config = make_config(
        skip_bad_records=True, eval_tfrecords=str(path), do_train=do_train, do_eval=not do_train
    )
    records = (held_out_records if do_train else evaluated_records)(config)
    records.batches(first_example=0, batch_size=4, seq_length=16, shard=UNSHARDED)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Skipping {path}: bad record at byte ")
    assert second.startswith("Skipping 1 bad records, reading ")


def test_ids_that_the_vocabulary_lacks_are_refused_whatever_the_number_of_embeddings(
    make_config, tiny_data, tmp_path
):
    """Records of another vocabulary, without a manifest that would say so."""
    words = (tiny_data / "vocab.txt").read_text().splitlines()
    shorter = tmp_path / "shorter.txt"
    shorter.write_text("\n".join(words[:20]) + "\n")
    complete = make_config()
    config = make_config(vocab_file=str(shorter))
    counts = training_records(complete).token_counts(complete.vocab_size)
    assert counts[20:].any()
    for records in (training_records(config), evaluated_records(config)):
        with pytest.raises(UserError, match=r"bad record at .*the vocabulary are from 0 to 19"):
            records.token_counts(config.vocab_size)
    more = make_config(vocab_size=complete.vocab_size + 7)  # embeddings of no token
    padded = training_records(more).token_counts(more.vocab_size)
    assert padded.tolist() == [*counts, *[0] * 7]


def test_every_folder_of_the_records_is_named(make_config, tiny_data, tmp_path):
    path = tmp_path / "more/x.tfrecord"
    path.parent.mkdir()
    path.touch()
    folder = tiny_data / "pretrain_tfrecords"
    config = make_config(pretrain_tfrecords=f"{folder}/*.tfrecord*,{path}")
    described = training_records(config).describe(16)
    assert described == f"3 files in {folder}, {path.parent}"


def test_what_needs_token_frequencies_is_named(make_config, tmp_path):
    missing = {"pretrain_tfrecords": f"{tmp_path}/none", "do_train": False, "do_eval": True}
    strategic = make_config(masking="strategic", **missing)
    unigram = make_config(generator_type="unigram", embedding_sharing="none", **missing)
    for config, named in (
        (strategic, "masking=strategic"),
        (unigram, "generator_type=unigram"),
    ):
        with pytest.raises(
            UserError, match=rf"^--{named}: evaluations need the token frequencies .* No file"
        ):
            count_trained_tokens(config, config.vocab_size)
