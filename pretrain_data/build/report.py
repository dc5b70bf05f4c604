"""What a build of records prints at its end."""

import json
import pathlib
import re
import shlex
from collections.abc import Callable

from electra_tf.text.tokenizer_description import warn_of_unknown_words
from electra_tf.util.console import format_seconds, percent, warn_once
from pretrain_data.build.selection import CAUSES, DUPLICATE, NEAR_DUPLICATE
from pretrain_data.corpus.corpus_report import print_nulls, print_repairs
from pretrain_data.examples.shard_names import SHARD_PREFIX
from pretrain_data.records import manifest as records_manifest

# Maximum length of the models that the position embeddings have by default.
_DEFAULT_POSITIONS = 512
# Share of padding above which it is warned of, and examples of a corpus that is large enough
# for it to matter.
_MAX_PADDING, _MIN_EXAMPLES = 0.5, 1000
# Names of folders of records that are not for training, such as eval_tfrecords.
_HELD_OUT_NAME = re.compile(r"(?<![a-z])(eval|held_?out|dev|valid(ation)?)(?![a-z])")


def print_result(
    manifest: records_manifest.Manifest,
    held_out: records_manifest.Manifest | None,
    output_dir: pathlib.Path,
    vocab_file: pathlib.Path,
    seconds: float,
    print_fn: Callable[[str], None],
) -> None:
    """Prints what was built, what was repaired or skipped, and the next command."""
    print_repairs(manifest.invalid_utf8, print_fn)
    print_nulls(manifest.null_texts, print_fn)
    if manifest.unreadable:
        print_fn(f"Skipped {len(manifest.unreadable):,} unreadable files and folders:")
    for path, reason in manifest.unreadable.items():
        print_fn(f"{path} {reason}.")
    if manifest.deduplicate != "none":
        _print_duplicates(manifest, print_fn)
    if held_out is not None:
        print_fn(
            f"Held out {held_out.num_documents:,} documents ({held_out.num_tokens_read:,} "
            f"tokens, {held_out.num_examples:,} examples), on which training evaluates: "
            f"{output_dir}/{records_manifest.HELD_OUT_DIR}"
        )
    if manifest.pack:
        print_fn(f"{manifest.num_packed:,} examples contain several documents.")
    warn_of_unknown_words("the records", manifest.num_unknown, manifest.num_words, vocab_file)
    _warn_of_padding(manifest)
    text_megabytes = manifest.num_text_bytes / 1e6
    duration = f"{seconds:.1f} s" if seconds < 10 else format_seconds(seconds)
    print_fn(
        f"{manifest.num_examples:,} examples of {manifest.max_seq_length} tokens from "
        f"{_count_documents(manifest)} documents ({manifest.num_lines:,} lines, "
        f"{text_megabytes:,.1f} MB) in {duration}: "
        f"{text_megabytes / seconds:.1f} MB/s.\n"
        f"{_describe_tokens(manifest)}\n"
        f"Records:  {output_dir}/{SHARD_PREFIX}-*-of-{len(manifest.shards)}\n"
        f"Manifest: {output_dir}/{records_manifest.FILE_NAME}\n"
        "Next:     python run_pretraining.py --model_name=electra_small "
        f"--data_dir={shlex.quote(str(output_dir.parent))} "
        f"{_records_flag(output_dir)}={shlex.quote(f'{output_dir}/{SHARD_PREFIX}*')} "
        f"--vocab_file={shlex.quote(str(vocab_file))} "
        f"--vocab_size={manifest.vocab_size} --max_seq_length={manifest.max_seq_length}"
        + "".join(f" {flag}" for flag in _model_flags(manifest))
    )


def _warn_of_padding(manifest: records_manifest.Manifest) -> None:
    """Warns if most of what training will compute is padding."""
    share = _padding_share(manifest)
    if manifest.num_examples < _MIN_EXAMPLES or share <= _MAX_PADDING:
        return
    can_pack = not (manifest.pack or manifest.authors_trimming)
    warn_once(
        f"{percent(share)} of the positions of the records are padding, which takes as long to "
        "train on as text: pass a smaller --max-seq-length"
        + (", or --pack, which fills rows with several documents" if can_pack else "")
    )


def _padding_share(manifest: records_manifest.Manifest) -> float:
    return manifest.num_padding / (manifest.num_examples * manifest.max_seq_length)


def _print_duplicates(
    manifest: records_manifest.Manifest, print_fn: Callable[[str], None]
) -> None:
    numbers = {DUPLICATE: manifest.num_duplicates}
    if manifest.deduplicate == "near":
        numbers[NEAR_DUPLICATE] = manifest.num_near_duplicates
    for fate, number in numbers.items():
        num_tokens = manifest.dropped_tokens.get(CAUSES[fate], 0)
        print_fn(f"Left out {number:,} {CAUSES[fate]} ({num_tokens:,} tokens).")


def _count_documents(manifest: records_manifest.Manifest) -> str:
    """Returns the number of documents in the records, and of those read if some were left out.

    The numbers of lines and bytes include the duplicates.
    """
    kept = manifest.num_documents
    read = kept + manifest.num_duplicates + manifest.num_near_duplicates
    return f"{kept:,}" if read == kept else f"{kept:,} of {read:,}"


def _records_flag(output_dir: pathlib.Path) -> str:
    """Returns the flag of pre-training for records in a folder: by its name, held-out ones."""
    name = output_dir.name.lower()
    return "--eval_tfrecords" if _HELD_OUT_NAME.search(name) else "--pretrain_tfrecords"


def _model_flags(manifest: records_manifest.Manifest) -> list[str]:
    """Returns the flags of models for these records that differ from their defaults."""
    flags = []
    if not manifest.do_lower_case:
        flags.append("--do_lower_case=false")
    elif not manifest.strip_accents:
        flags.append("--strip_accents=false")
    if manifest.max_seq_length > _DEFAULT_POSITIONS:
        overrides = json.dumps({"max_position_embeddings": manifest.max_seq_length})
        flags.append(f"--model_hparam_overrides={shlex.quote(overrides)}")
    return flags


def _describe_tokens(manifest: records_manifest.Manifest) -> str:
    read, written = manifest.num_tokens_read, manifest.num_tokens_written
    text = f"Tokens:   {read:,} read, {written:,} written ({percent(written / read)})"
    if manifest.authors_trimming:
        causes = [f"{n:,} {cause}" for cause, n in manifest.dropped_tokens.items()]
        text += f", {read - written:,} dropped (--authors_trimming): {', '.join(causes)}"
    elif read > written:
        text += f", {read - written:,} in duplicate documents"
    padding = f"{percent(_padding_share(manifest))} of the positions are padding"
    unknown = ""
    if manifest.num_unknown:
        share = manifest.num_unknown / manifest.num_words
        unknown = f"; {percent(share)} of the words are unknown ([UNK])"
    return f"{text}{unknown}; {padding}."
