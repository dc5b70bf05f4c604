r"""Compares corpus building with the Rust `tokenizers`, and one process with two.

    python -m benchmarks.corpus_building

Ours goes all the way: read, tokenize, build examples, write records. The other one, the
BertWordPieceTokenizer of the package `tokenizers` on one thread, only tokenizes lines that
are in memory already. Both run on one core, by turns, in this process. Loading the
libraries is not counted.
The second table runs the program itself. Its text repeats, so that every word is soon known
and MB/s are higher than on new text; the speed-up is what it is for.
Needs `pip install tokenizers`.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from absl import flags

from flags import command_line

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "demo/corpus", "English text.")
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file", "recipes/vocab/bert_uncased_vocab.txt", "WordPiece vocabulary."
)
_RUNS = flags.DEFINE_integer("runs", 5, "Runs of each on one core.", lower_bound=1)
_SCALING_MEGABYTES = flags.DEFINE_integer(
    "scaling_megabytes",
    100,
    "Size of the text for one process against two; 0 leaves that table out.",
    lower_bound=0,
)


def main() -> None:
    """Prints both tables."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from pretrain_data.quiet import import_tensorflow

    corpus_dir, vocab_file = pathlib.Path(_CORPUS_DIR.value), pathlib.Path(_VOCAB_FILE.value)
    num_bytes = sum(path.stat().st_size for path in corpus_dir.rglob("*.txt"))
    print(f"{corpus_dir}: {num_bytes / 1e6:.1f} MB")
    all_cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if _SCALING_MEGABYTES.value and len(all_cores) > 1:
        compare_processes(corpus_dir, vocab_file, _SCALING_MEGABYTES.value)
    if all_cores:
        os.sched_setaffinity(0, {min(all_cores)})
    import_tensorflow()
    compare_with_tokenizers(corpus_dir, vocab_file, num_bytes)


def compare_with_tokenizers(
    corpus_dir: pathlib.Path, vocab_file: pathlib.Path, num_bytes: int
) -> None:
    """Times both on one core, by turns."""
    from tokenizers import BertWordPieceTokenizer

    rust = BertWordPieceTokenizer(str(vocab_file), lowercase=True, strip_accents=True)
    texts = [path.read_text() for path in sorted(corpus_dir.rglob("*.txt"))]
    lines = [line for text in texts for line in text.split("\n")]

    calls = {
        "batch": lambda: rust.encode_batch(lines, add_special_tokens=False),
        # Without offsets; the wrapper class does not offer it.
        "fast": lambda: rust._tokenizer.encode_batch_fast(lines, add_special_tokens=False),
        "start": lambda: _start_tokenizer(vocab_file),
        "ours": lambda: build(corpus_dir, vocab_file),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_RUNS.value):
        for name, call in calls.items():
            seconds[name].append(_timed(call))
    median = {name: statistics.median(durations) for name, durations in seconds.items()}
    median["ours after start"] = median["ours"] - median["start"]
    print(f"\nOne core, {num_bytes / 1e6:.1f} MB, medians of {_RUNS.value} runs by turns")
    print(f"{'':<58}MB/s   to encode_batch   to encode_batch_fast")
    for name, what in (
        ("batch", "tokenizers, encode_batch: tokenization alone"),
        ("fast", "tokenizers, encode_batch_fast: tokenization alone"),
        ("ours", f"ours, text to records on disk, {median['start']:.2f} s of start included"),
        ("ours after start", "ours, text to records on disk, tokenizer ready as in theirs"),
    ):
        rate = num_bytes / 1e6 / median[name]
        ratios = [median[other] / median[name] for other in ("batch", "fast")]
        print(f"  {what:<60}{rate:>6.2f}{ratios[0]:>13.2f}x{ratios[1]:>19.2f}x")


def compare_processes(
    corpus_dir: pathlib.Path, vocab_file: pathlib.Path, megabytes: int
) -> None:
    """Times one file with one and with two processes, each of which loads TensorFlow."""
    content = (
        b"\n".join(path.read_bytes() for path in sorted(corpus_dir.rglob("*.txt"))) + b"\n"
    )
    copies = max(2, round(megabytes * 1e6 / len(content)))
    print(f"\nOne file of {copies} copies of the text, {copies * len(content) / 1e6:.0f} MB")
    print("  processes   seconds   of it start   MB/s after the start   speed-up of that")
    rates = {}
    for num_processes in (1, 2):
        seconds = {}
        for n in (1, copies):
            with tempfile.TemporaryDirectory() as directory:
                path = pathlib.Path(directory, "text.txt")
                path.write_bytes(content * n)
                seconds[n] = _timed(
                    lambda path=path, p=num_processes: _run_program(path.parent, vocab_file, p)
                )
        seconds_per_copy = (seconds[copies] - seconds[1]) / (copies - 1)
        rates[num_processes] = len(content) / 1e6 / seconds_per_copy
        print(
            f"  {num_processes:>9}{seconds[copies]:>10.1f}"
            f"{seconds[copies] - copies * seconds_per_copy:>14.1f}"
            f"{rates[num_processes]:>23.2f}{rates[num_processes] / rates[1]:>19.2f}"
        )


def build(corpus_dir: pathlib.Path, vocab_file: pathlib.Path) -> None:
    """Builds in this process, into a directory that is removed again."""
    from pretrain_data.build import CorpusBuildConfig, build_pretraining_data

    with tempfile.TemporaryDirectory() as output_dir:
        config = CorpusBuildConfig(corpus_dir, vocab_file, pathlib.Path(output_dir))
        build_pretraining_data(config, say=lambda message: None)


def _start_tokenizer(vocab_file: pathlib.Path) -> None:
    from pretrain_data.tokenizer import Tokenizer
    from pretrain_data.vocabulary import load_vocabulary

    Tokenizer(load_vocabulary(vocab_file)).tokenize(["text"])


def _run_program(
    corpus_dir: pathlib.Path, vocab_file: pathlib.Path, num_processes: int
) -> None:
    with tempfile.TemporaryDirectory() as output_dir:
        command = [sys.executable, "build_pretraining_dataset.py"]
        command += ["--corpus-dir", str(corpus_dir), "--vocab-file", str(vocab_file)]
        command += ["--output-dir", output_dir, "--num-processes", str(num_processes)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    command_line.run(main)
