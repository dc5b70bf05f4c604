"""Builds pre-training data: a directory of text to a directory of TFRecord shards.

Shards are written to a hidden directory inside the output directory. Only when all of
them are whole is older data removed, and the new shards and their manifest moved to
their places; an error or an interrupt before that leaves older data as they were.
"""

import dataclasses
import math
import multiprocessing
import os
import pathlib
import queue
import shlex
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator

from electra_tf.errors import UserError
from pretrain_data import manifest as manifest_lib
from pretrain_data.archives import find_archives
from pretrain_data.corpus import find_corpus
from pretrain_data.example_builder import MIN_SEQ_LENGTH
from pretrain_data.partition import Part, divide, shuffled
from pretrain_data.progress import ProgressLine, format_seconds
from pretrain_data.vocabulary import load_vocabulary
from pretrain_data.worker import Job, Result, Totals, WorkerError, run_job

MAX_SEQ_LENGTH = 65536
# Records take about as much space as their text. Some shards are needed to shuffle by.
_TEXT_BYTES_PER_SHARD = 16 << 20
_MIN_SHARDS = 4
_MAX_SHARDS = 1000
_TEMPORARY_PREFIX = ".building-"
_SHARD_PREFIX = "pretrain_data.tfrecord"


@dataclasses.dataclass(frozen=True)
class CorpusBuildConfig:
    """What to build, from what and how.

    Attributes:
        corpus_dir: holds the text: `.txt` and `.txt.gz` files at any depth, or `.xz` tar
            archives when `is_openwebtext`.
        vocab_file: WordPiece vocabulary.
        output_dir: gets the shards and the manifest.
        max_seq_length: tokens per example.
        num_processes: processes that build at the same time. The examples are a function
            of the corpus, the settings, `seed` and this number.
        num_out_files: number of shards; None chooses by the size of the corpus.
        blanks_separate_docs: a blank line ends a document, not just a file's end.
        do_lower_case: lower-case the text.
        strip_accents: drop accents when lower-casing.
        shuffle_files: read files in a random order instead of the order of their paths.
        seed: of every draw.
        overwrite: replace data that the output directory holds.
        is_openwebtext: read archives.
    """

    corpus_dir: pathlib.Path
    vocab_file: pathlib.Path
    output_dir: pathlib.Path
    max_seq_length: int = 128
    num_processes: int = 1
    num_out_files: int | None = None
    blanks_separate_docs: bool = True
    do_lower_case: bool = True
    strip_accents: bool = True
    shuffle_files: bool = True
    seed: int = 0
    overwrite: bool = False
    is_openwebtext: bool = False


def build_pretraining_data(
    config: CorpusBuildConfig, say: Callable[[str], None] = print
) -> manifest_lib.Manifest:
    """Builds the shards and their manifest in `config.output_dir`.

    Args:
        config: what to build.
        say: gets every message.

    Returns:
        The manifest that was written.

    Raises:
        UserError: a setting, the corpus, the vocabulary or the output directory will not
            do. Nothing was removed or replaced.
        WorkerError: a process failed for another reason.
    """
    _check_settings(config)
    vocabulary = load_vocabulary(config.vocab_file)
    parts = _find_parts(config, say)
    _check_output_dir(config)

    if config.shuffle_files:
        parts = shuffled(parts, config.seed)
    num_shards = _num_shards(config, parts)
    shares = divide(parts, config.num_processes, config.blanks_separate_docs)
    num_disk_bytes = sum(part.num_disk_bytes for part in parts)
    say(
        f"Reading {num_disk_bytes / 1e6:,.1f} MB in {len(parts)} files with {len(shares)} "
        f"process{'es' if len(shares) > 1 else ''}, writing {num_shards} shards."
    )
    with _temporary_dir(config.output_dir) as temporary_dir:
        jobs = [
            Job(
                index=index,
                parts=share,
                vocabulary=vocabulary,
                temporary_dir=temporary_dir,
                shard_indices=list(range(index, num_shards, len(shares))),
                num_shards=num_shards,
                max_seq_length=config.max_seq_length,
                seed=config.seed,
                do_lower_case=config.do_lower_case,
                strip_accents=config.strip_accents,
                blanks_separate_docs=config.blanks_separate_docs,
            )
            for index, share in enumerate(shares)
        ]
        progress = ProgressLine(num_disk_bytes)
        try:
            results = _run_here(jobs[0], progress) if len(jobs) == 1 else _run(jobs, progress)
        finally:
            seconds = progress.close()
        manifest = _manifest(config, vocabulary.size, vocabulary.sha256, results)
        if not manifest.num_examples:
            raise UserError(
                f"The corpus in {config.corpus_dir} holds no text: every one of its "
                f"{manifest.num_lines:,} lines is blank or without tokens."
            )
        _publish(manifest, temporary_dir, config.output_dir)
    _say_result(config, manifest, seconds, say)
    return manifest


def _check_settings(config: CorpusBuildConfig) -> None:
    if not MIN_SEQ_LENGTH <= config.max_seq_length <= MAX_SEQ_LENGTH:
        raise UserError(
            f"--max-seq-length must be from {MIN_SEQ_LENGTH} to {MAX_SEQ_LENGTH}, "
            f"not {config.max_seq_length}."
        )
    if config.num_processes < 1:
        raise UserError(f"--num-processes must be at least 1, not {config.num_processes}.")
    if config.num_out_files is not None and config.num_out_files < config.num_processes:
        raise UserError(
            f"--num-out-files ({config.num_out_files}) must be at least --num-processes "
            f"({config.num_processes}): every process writes shards of its own."
        )


def _find_parts(config: CorpusBuildConfig, say: Callable[[str], None]) -> list[Part]:
    if config.is_openwebtext:
        return find_archives(config.corpus_dir)
    corpus = find_corpus(config.corpus_dir)
    if corpus.ignored:
        examples = ", ".join(
            str(path.relative_to(config.corpus_dir)) for path in corpus.ignored[:3]
        )
        more = ", …" if len(corpus.ignored) > 3 else ""
        say(f"Ignored {len(corpus.ignored)} files not named .txt or .txt.gz: {examples}{more}")
    return list(corpus.parts)


def _check_output_dir(config: CorpusBuildConfig) -> None:
    output_dir = config.output_dir
    if output_dir.exists() and not output_dir.is_dir():
        raise UserError(f"--output-dir {output_dir} is a file; it must be a directory.")
    present = [p for p in _entries(output_dir) if not p.name.startswith(_TEMPORARY_PREFIX)]
    if present and not config.overwrite:
        raise UserError(
            f"--output-dir {output_dir} is not empty (it holds {present[0].name}). Give "
            "another directory, or --overwrite to replace the data in it."
        )


def _entries(directory: pathlib.Path) -> list[pathlib.Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _num_shards(config: CorpusBuildConfig, parts: list[Part]) -> int:
    if config.num_out_files is not None:
        return config.num_out_files
    by_size = math.ceil(sum(part.weight for part in parts) / _TEXT_BYTES_PER_SHARD)
    return max(config.num_processes, min(_MAX_SHARDS, max(_MIN_SHARDS, by_size)))


class _temporary_dir:  # noqa: N801
    """Makes a hidden directory in the output directory and removes it at the end.

    What killed builds left is removed too; so is the output directory, if it was made here
    and nothing was put in it.
    """

    def __init__(self, output_dir: pathlib.Path):
        self._output_dir = output_dir

    def __enter__(self) -> pathlib.Path:
        existed = self._output_dir.exists()
        try:
            self._output_dir.mkdir(parents=True, exist_ok=True)
            for path in _entries(self._output_dir):
                if path.name.startswith(_TEMPORARY_PREFIX):
                    shutil.rmtree(path)
            temporary = tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX, dir=self._output_dir)
        except OSError as error:
            raise UserError(
                f"--output-dir {self._output_dir} cannot be written: {error.strerror}."
            ) from error
        self._made_output_dir = not existed
        self._path = pathlib.Path(temporary)
        return self._path

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        if self._made_output_dir and not _entries(self._output_dir):
            self._output_dir.rmdir()


def _run_here(job: Job, progress: ProgressLine) -> list[Result]:
    def report(totals: Totals) -> None:
        progress.update(totals.disk_bytes, totals.text_bytes, totals.examples)

    return [run_job(job, report)]


def _run(jobs: list[Job], progress: ProgressLine) -> list[Result]:
    """Runs each job in a process of its own; any failure ends them all."""
    # A fresh interpreter: TensorFlow does not survive a fork.
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    processes = [
        context.Process(target=_work, args=(job, messages), daemon=True) for job in jobs
    ]
    totals = [Totals()] * len(jobs)
    results: list[Result | None] = [None] * len(jobs)
    try:
        for process in processes:
            process.start()
        for index, message in _receive(messages, processes, results):
            if isinstance(message, Exception):
                raise message
            if isinstance(message, Result):
                results[index] = message
            else:
                totals[index] = message
            progress.update(
                sum(t.disk_bytes for t in totals),
                sum(t.text_bytes for t in totals),
                sum(t.examples for t in totals),
            )
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    return results


def _receive(
    messages: multiprocessing.Queue,
    processes: list[multiprocessing.Process],
    results: list[Result | None],
) -> Iterator[tuple[int, Totals | Result | Exception]]:
    """Yields what the processes send until `results` is filled by the caller."""
    while None in results:
        try:
            yield messages.get(timeout=1.0)
            continue
        except queue.Empty:
            pass
        for process, result in zip(processes, results, strict=True):
            if result is None and process.exitcode is not None and messages.empty():
                raise WorkerError(
                    f"A process of the build ended with exit code {process.exitcode}; it may "
                    "have run out of memory. Fewer --num-processes need less."
                )


def _work(job: Job, messages: multiprocessing.Queue) -> None:
    # Ctrl-C reaches every process; the parent ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        messages.put(
            (job.index, run_job(job, lambda totals: messages.put((job.index, totals))))
        )
    except (UserError, WorkerError) as error:
        messages.put((job.index, error))


def _manifest(
    config: CorpusBuildConfig, vocab_size: int, vocab_sha256: str, results: list[Result]
) -> manifest_lib.Manifest:
    shards = {name: n for result in results for name, n in result.shards.items()}
    invalid_utf8: Counter[str] = Counter()
    for result in results:
        invalid_utf8.update(result.invalid_utf8)
    return manifest_lib.Manifest(
        max_seq_length=config.max_seq_length,
        num_examples=sum(shards.values()),
        shards={name: shards[name] for name in sorted(shards, key=lambda n: (len(n), n))},
        num_documents=sum(result.totals.documents for result in results),
        num_lines=sum(result.totals.lines for result in results),
        num_text_bytes=sum(result.totals.text_bytes for result in results),
        invalid_utf8={
            os.path.relpath(path, config.corpus_dir): count
            for path, count in sorted(invalid_utf8.items())
        },
        vocab_size=vocab_size,
        vocab_sha256=vocab_sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
        blanks_separate_docs=config.blanks_separate_docs,
        shuffle_files=config.shuffle_files,
        seed=config.seed,
        num_processes=config.num_processes,
    )


def _publish(
    manifest: manifest_lib.Manifest, temporary_dir: pathlib.Path, output_dir: pathlib.Path
) -> None:
    """Replaces older data by the new: the old manifest goes first, the new comes last."""
    (output_dir / manifest_lib.FILE_NAME).unlink(missing_ok=True)
    for path in output_dir.glob(f"{_SHARD_PREFIX}*"):
        path.unlink()
    for name in manifest.shards:
        os.replace(temporary_dir / name, output_dir / name)
    manifest_lib.write_manifest(manifest, output_dir)


def _say_result(
    config: CorpusBuildConfig,
    manifest: manifest_lib.Manifest,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    for path, count in manifest.invalid_utf8.items():
        say(f"{path}: {count:,} invalid UTF-8 sequences were replaced with U+FFFD.")
    text_megabytes = manifest.num_text_bytes / 1e6
    say(
        f"{manifest.num_examples:,} examples of {manifest.max_seq_length} tokens from "
        f"{manifest.num_documents:,} documents ({manifest.num_lines:,} lines, "
        f"{text_megabytes:,.1f} MB) in {format_seconds(seconds)}: "
        f"{text_megabytes / seconds:.1f} MB/s.\n"
        f"Records:  {config.output_dir}/{_SHARD_PREFIX}-*-of-{len(manifest.shards)}\n"
        f"Manifest: {config.output_dir}/{manifest_lib.FILE_NAME}\n"
        "Next:     python run_pretraining.py --model_name=electra_small "
        f"--data_dir={shlex.quote(str(config.output_dir.parent))} "
        f"--pretrain_tfrecords={shlex.quote(f'{config.output_dir}/{_SHARD_PREFIX}*')} "
        f"--vocab_file={shlex.quote(str(config.vocab_file))} "
        f"--max_seq_length={manifest.max_seq_length}"
    )
