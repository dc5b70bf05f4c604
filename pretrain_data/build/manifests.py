"""Manifests of a build, from the results of its processes."""

import dataclasses
import os
import pathlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.jobs import BuildResult
from pretrain_data.build.selection import DUPLICATE, NEAR_DUPLICATE
from pretrain_data.records import manifest as records_manifest


def manifest_of_results(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    results: list[BuildResult],
    num_units: int,
    unreadable: Mapping[str, str],
    temporary_dir: pathlib.Path,
) -> records_manifest.Manifest:
    """Returns the manifest of the records of all processes.

    Args:
        config: settings of the build.
        vocabulary: vocabulary of the records.
        results: outcomes of the processes.
        num_units: number of units that the corpus was divided into.
        unreadable: files that were found to be unreadable before the build, with the reason.
        temporary_dir: folder of the shards.
    """
    shards = {name: n for result in results for name, n in result.shards.items()}
    shards = {name: shards[name] for name in sorted(shards, key=lambda n: (len(n), n))}
    hashes = {name: h for result in results for name, h in result.shard_sha256.items()}
    invalid_utf8: Counter[str] = Counter()
    null_texts: Counter[str] = Counter()
    dropped_tokens: Counter[str] = Counter()
    unreadable = dict(unreadable)
    for result in results:
        unreadable.update(result.unreadable)
        invalid_utf8.update(result.invalid_utf8)
        null_texts.update(result.null_texts)
        dropped_tokens.update(result.dropped_tokens)
    return records_manifest.Manifest(
        max_seq_length=config.max_seq_length,
        num_examples=sum(shards.values()),
        shards=shards,
        shard_bytes={name: (temporary_dir / name).stat().st_size for name in shards},
        shard_sha256={name: hashes[name] for name in shards},
        num_documents=sum(result.totals.documents for result in results),
        num_lines=sum(result.totals.lines for result in results),
        num_text_bytes=sum(result.totals.text_bytes for result in results),
        invalid_utf8=_named(invalid_utf8, config),
        null_texts=_named(null_texts, config),
        vocab_size=vocabulary.size,
        vocab_sha256=vocabulary.sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
        blanks_separate_docs=config.blanks_separate_docs,
        shuffle_files=config.shuffle_files,
        seed=config.seed,
        num_processes=config.num_processes,
        num_units=num_units,
        authors_trimming=config.authors_trimming,
        num_tokens_read=sum(result.totals.tokens_read for result in results),
        num_tokens_written=sum(result.totals.tokens_written for result in results),
        dropped_tokens=dict(dropped_tokens),
        unreadable=_named(unreadable, config),
        tokenizer=TokenizerDescription(
            vocab_sha256=vocabulary.sha256,
            do_lower_case=config.do_lower_case,
            strip_accents=config.strip_accents,
        ).to_dict(),
        eval_fraction=config.eval_fraction,
        deduplicate=config.deduplicate,
        sentences=config.sentences,
        sentence_language=config.sentence_language if config.sentences == "split" else None,
        pack=config.pack,
        num_packed=sum(result.num_packed for result in results),
        num_padding=sum(result.totals.padding for result in results),
        num_unknown=sum(result.totals.unknown for result in results),
        num_words=sum(result.totals.words for result in results),
        num_duplicates=sum(result.num_left_out.get(DUPLICATE, 0) for result in results),
        num_near_duplicates=sum(
            result.num_left_out.get(NEAR_DUPLICATE, 0) for result in results
        ),
        near_duplicates=_near_duplicates(config),
    )


def held_out_manifest(
    config: CorpusBuildConfig,
    vocabulary: Vocabulary,
    results: list[BuildResult],
    num_units: int,
    temporary_dir: pathlib.Path,
) -> records_manifest.Manifest | None:
    """Returns the manifest of the held-out records, if --eval_fraction is given.

    Raises:
        UserError: no document was held out.
    """
    if not config.eval_fraction:
        return None
    held_out = [result.held_out for result in results if result.held_out]
    directory = temporary_dir / records_manifest.HELD_OUT_DIR
    manifest = manifest_of_results(config, vocabulary, held_out, num_units, {}, directory)
    if not manifest.num_examples:
        raise UserError(
            f"--eval_fraction={config.eval_fraction} holds out none of the documents in "
            f"{config.corpus_name}: there are too few for this fraction"
        )
    return dataclasses.replace(manifest, held_out=True)


def _near_duplicates(config: CorpusBuildConfig) -> dict[str, Any] | None:
    if config.deduplicate != "near":
        return None
    return {
        "threshold": config.near_duplicate_threshold,
        "words": config.near_duplicate_words,
        "permutations": config.near_duplicate_permutations,
    }


def _named(by_path: Mapping[str, Any], config: CorpusBuildConfig) -> dict[str, Any]:
    """Returns the values by the names that the files have in the manifest."""

    def name(path: str) -> str:
        return os.path.relpath(path, config.corpus_dir) if config.corpus_dir else path

    return {name(path): value for path, value in sorted(by_path.items())}
