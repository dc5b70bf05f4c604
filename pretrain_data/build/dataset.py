"""Builds pre-training data: from files of text to a folder of TFRecord shards.

Shards are written to a hidden folder inside the output folder. Once all are complete,
older data is removed, and the shards and their manifest are moved into place. An error or
interrupt before that leaves older data intact.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    tokenizer_settings,
    warn_of_kept_accents,
)
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.signals import exiting_on_signals
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.drivers.cluster_run import ClusterRun
from pretrain_data.build.drivers.local_run import LocalRun
from pretrain_data.build.drivers.plan import BuildPlan, Driver
from pretrain_data.build.manifests import held_out_manifest, manifest_of_results
from pretrain_data.build.near_duplicates import check_near_duplicates
from pretrain_data.build.output_dir import (
    TemporaryDir,
    check_output_dir,
    lock_output_dir,
    publish,
)
from pretrain_data.build.report import print_result
from pretrain_data.build.selection import DEDUPLICATE_CHOICES
from pretrain_data.build.units import find_units
from pretrain_data.corpus.corpus_report import print_left_out
from pretrain_data.corpus.inputs import find_text, warn_of_unused_names
from pretrain_data.corpus.partition import CorpusPart
from pretrain_data.corpus.readers.archives import find_archives
from pretrain_data.corpus.sentences import check_sentences
from pretrain_data.examples.example_builder import MIN_SEQ_LENGTH
from pretrain_data.records import manifest as records_manifest

MAX_SEQ_LENGTH = 65536
# Records are about as large as their text. Shuffling needs several shards.
_TEXT_BYTES_PER_SHARD = 16 << 20
_MIN_SHARDS = 4
_MAX_SHARDS = 1000
# A setting, a value of it, and the settings that have an effect with this value alone.
_SWITCHES = (
    (
        "deduplicate",
        "near",
        (
            "near_duplicate_threshold",
            "near_duplicate_words",
            "near_duplicate_permutations",
        ),
    ),
    ("sentences", "split", ("sentence_language",)),
)
_TOKENIZER_FLAGS = {"do_lower_case": "--do-lower-case", "strip_accents": "--do-strip-accents"}


def build_pretraining_data(
    config: CorpusBuildConfig,
    print_fn: Callable[[str], None] = print,
    driver: Driver | None = None,
) -> records_manifest.Manifest:
    """Builds the shards and their manifest in `config.output_dir`.

    Args:
        config: settings of the build.
        print_fn: prints a message.
        driver: builds the units of the corpus; by default, that of `config.runner`.

    Returns:
        The manifest.

    Raises:
        UserError: a setting, the corpus, the vocabulary or the output folder is invalid.
            Nothing was removed or replaced.
        WorkerError: a process failed for another reason.
    """
    driver = driver or (ClusterRun() if config.runner else LocalRun())
    # First: a setting that the driver refuses is reported even if a package is missing.
    driver.check(config)
    _check_settings(config)
    vocab_flag, output_flag = "--vocab-file", "--output-dir"
    if config.is_openwebtext:
        vocab_flag = output_flag = "--data-dir"
    vocabulary = load_vocabulary(config.vocab_file, vocab_flag)
    given = {name: getattr(config, name) for name in TOKENIZER_SETTINGS}
    settings = tokenizer_settings(given, config.vocab_file, flags=_TOKENIZER_FLAGS)
    if config.strip_accents and not settings["do_lower_case"]:
        warn_of_kept_accents(_TOKENIZER_FLAGS["strip_accents"])
    config = dataclasses.replace(config, **settings)
    parts, unreadable = _find_parts(config, print_fn)
    with exiting_on_signals(), lock_output_dir(config.output_dir, output_flag):
        check_output_dir(config.output_dir, config.overwrite, output_flag)
        return _build(config, vocabulary, parts, unreadable, driver, output_flag, print_fn)


def _build(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    parts: list[CorpusPart],
    unreadable: Mapping[str, str],
    driver: Driver,
    output_flag: str,
    print_fn: Callable[[str], None],
) -> records_manifest.Manifest:
    units = find_units(parts, config)
    num_disk_bytes = sum(part.num_disk_bytes for part in parts)
    noun = "file" if len(parts) == 1 else "files"
    print_fn(f"Reading {num_disk_bytes / 1e6:,.1f} MB in {len(parts):,} {noun}.")
    with TemporaryDir(config.output_dir, output_flag) as temporary_dir:
        held_out_dir = None
        if config.eval_fraction:
            held_out_dir = temporary_dir / records_manifest.HELD_OUT_DIR
            held_out_dir.mkdir()
        plan = BuildPlan(
            config=config,
            vocabulary=vocabulary,
            units=units,
            num_disk_bytes=num_disk_bytes,
            num_shards=_num_shards(config, parts),
            temporary_dir=temporary_dir,
            held_out_dir=held_out_dir,
            print_fn=print_fn,
        )
        results, seconds = driver.run(plan)
        manifest = manifest_of_results(
            config, vocabulary, results, len(units), unreadable, temporary_dir
        )
        if not manifest.num_examples and config.eval_fraction:
            raise UserError(
                f"--eval_fraction={config.eval_fraction} leaves no text of the corpus in "
                f"{config.corpus_name} to train on"
            )
        if not manifest.num_examples:
            raise _no_text(manifest, config)
        held_out = held_out_manifest(config, vocabulary, results, len(units), temporary_dir)
        publish(manifest, held_out, temporary_dir, config.output_dir, output_flag)
    print_result(manifest, held_out, config.output_dir, config.vocab_file, seconds, print_fn)
    return manifest


def _no_text(manifest: records_manifest.Manifest, config: CorpusBuildConfig) -> UserError:
    what = f"its {manifest.num_lines:,} lines are blank or without tokens"
    if manifest.unreadable:
        path, reason = next(iter(manifest.unreadable.items()))
        return UserError(
            f"The corpus in {config.corpus_name} contains no text: --skip_unreadable left out "
            f"{len(manifest.unreadable):,} files and folders; {path} {reason}"
        )
    if not (manifest.num_lines or manifest.null_texts):
        return UserError(f"The corpus in {config.corpus_name} contains no text: it is empty")
    if num_nulls := sum(manifest.null_texts.values()):
        where = "--text_field, --text_column"
        what = f"{num_nulls:,} records have null as their text ({where})" + (
            f", and {what}" if manifest.num_lines else ""
        )
    return UserError(f"The corpus in {config.corpus_name} contains no text: all of {what}")


def _check_settings(config: CorpusBuildConfig) -> None:
    if not MIN_SEQ_LENGTH <= config.max_seq_length <= MAX_SEQ_LENGTH:
        raise UserError(
            f"--max-seq-length must be from {MIN_SEQ_LENGTH} to {MAX_SEQ_LENGTH}, "
            f"not {config.max_seq_length}"
        )
    if config.num_processes < 1:
        raise UserError(f"--num-processes must be at least 1, not {config.num_processes}")
    if not 0 <= config.eval_fraction < 1:
        raise UserError(
            f"--eval_fraction must be at least 0 and below 1, not {config.eval_fraction}"
        )
    if config.deduplicate not in DEDUPLICATE_CHOICES:
        raise UserError(
            f"--deduplicate must be one of {', '.join(DEDUPLICATE_CHOICES)}, "
            f"not {config.deduplicate}"
        )
    if config.deduplicate == "near":
        check_near_duplicates(
            config.near_duplicate_threshold,
            config.near_duplicate_words,
            config.near_duplicate_permutations,
        )
    if config.pack and config.authors_trimming:
        raise UserError(
            "--pack and --authors_trimming are mutually exclusive: pass one of them"
        )
    check_sentences(config.sentences, config.sentence_language)
    _warn_of_unused(config)


def _warn_of_unused(config: CorpusBuildConfig) -> None:
    """Warns of settings that have no effect without another one."""
    for switch, value, names in _SWITCHES:
        for name in names:
            given = getattr(config, name)
            unused = given != getattr(CorpusBuildConfig, name)
            if unused and getattr(config, switch) != value:
                warn_once(f"--{name}={given} has no effect without --{switch}={value}")


def _find_parts(
    config: CorpusBuildConfig, print_fn: Callable[[str], None]
) -> tuple[list[CorpusPart], Mapping[str, str]]:
    """Returns the files of the corpus, and why others cannot be read, by path."""
    if config.is_openwebtext:
        return find_archives(config.corpus_dir, skip_unreadable=config.skip_unreadable)
    corpus = find_text(
        config.corpus_dir,
        config.inputs,
        text_field=config.text_field,
        text_column=config.text_column,
        skip_unreadable=config.skip_unreadable,
        vocabularies=[config.vocab_file],
    )
    print_left_out(corpus, config.corpus_dir, print_fn)
    warn_of_unused_names(corpus.parts, config.text_field, config.text_column)
    return list(corpus.parts), corpus.unreadable


def _num_shards(config: CorpusBuildConfig, parts: list[CorpusPart]) -> int:
    if config.num_out_files is not None:
        return config.num_out_files
    by_size = math.ceil(sum(part.weight for part in parts) / _TEXT_BYTES_PER_SHARD)
    return max(config.num_processes, min(_MAX_SHARDS, max(_MIN_SHARDS, by_size)))
