r"""Compares corpus building with the Rust `tokenizers`, on one core and on two.

    python -m benchmarks.corpus_building --corpus_dir NOVELS

Ours is the program from its start to the records on disk: it loads TensorFlow, reads,
tokenizes, builds examples and writes them. The other one, the BertWordPieceTokenizer of the
package `tokenizers`, only tokenizes lines that are in memory already, with
`encode_batch_fast` (no offsets); its start and reading are not counted. All take turns. Two
independent programs at once show what two processes can reach on this machine.
Needs `pip install tokenizers`.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from absl import flags

from flags.command_line import program
from pretrain_data.corpus.inputs import find_corpus

_CORPUS_DIR = flags.DEFINE_string("corpus_dir", "demo/corpus", "English text.")
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file", "recipes/vocab/bert_uncased_vocab.txt", "WordPiece vocabulary."
)
_RUNS = flags.DEFINE_integer("runs", 3, "Runs of each.", lower_bound=1)
_THREADS = flags.DEFINE_integer(
    "rust_threads", None, "Print the seconds of the Rust tokenizer alone, with these threads."
)
_LINES_AT_ONCE = 10_000


def main() -> None:
    """Prints the table, or the seconds of the Rust tokenizer as JSON."""
    corpus_dir, vocab_file = pathlib.Path(_CORPUS_DIR.value), pathlib.Path(_VOCAB_FILE.value)
    if _THREADS.value:
        print(json.dumps(time_rust(corpus_dir, vocab_file)))
        return
    num_bytes = sum(
        block.num_text_bytes for part in find_corpus(corpus_dir).parts for block in part.read()
    )
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        nothing = pathlib.Path(directory)
        (nothing / "line.txt").write_text("One line.\n")
        cases: dict[str, Callable[[], float]] = {
            "start": lambda: run_programs(nothing, vocab_file, cores[:1]),
            "one": lambda: run_programs(corpus_dir, vocab_file, cores[:1]),
            "rust one": lambda: run_rust(1, cores[:1]),
        }
        if len(cores) > 1:
            cases |= {
                "start two": lambda: run_programs(nothing, vocab_file, cores[:2], 2),
                "two": lambda: run_programs(corpus_dir, vocab_file, cores[:2], 2),
                "programs": lambda: run_programs(corpus_dir, vocab_file, cores[:2], at_once=2),
                "rust two": lambda: run_rust(2, cores[:2]),
            }
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(_RUNS.value):
            for name, call in cases.items():
                seconds[name].append(call())
    median = {name: statistics.median(values) for name, values in seconds.items()}
    print_table(num_bytes / 1e6, median)


def print_table(megabytes: float, median: dict[str, float]) -> None:
    """Prints the medians of all cases."""
    print(f"{_CORPUS_DIR.value}: {megabytes:.1f} MB; medians of {_RUNS.value} runs by turns\n")
    rows = [
        ("Rust tokenizers, one thread: tokenization alone", "rust one"),
        ("ours, one process: text to records", "one"),
        ("Rust tokenizers, two threads: tokenization alone", "rust two"),
        ("ours, two processes: text to records", "two"),
    ]
    print(f"{'':<50}   seconds   MB/s   to Rust on as many cores")
    for what, name in rows:
        if name in median:
            rust = median["rust two" if name.endswith("two") else "rust one"]
            print(
                f"{what:<50}{median[name]:>10.1f}{megabytes / median[name]:>7.2f}"
                f"{rust / median[name]:>26.2f}x"
            )
    print(f"\nOf it, one process takes {median['start']:.1f} s to start.")
    if "two" in median:
        after_start = (median["one"] - median["start"]) / (median["two"] - median["start two"])
        print(
            f"Two processes: {median['one'] / median['two']:.2f} times as fast as one, "
            f"{after_start:.2f} times after the start.\n"
            "The most to expect: two programs at once do "
            f"{2 * median['one'] / median['programs']:.2f} times the work of one in its time."
        )


def run_programs(
    corpus_dir: pathlib.Path,
    vocab_file: pathlib.Path,
    cores: list[int],
    num_processes: int = 1,
    at_once: int = 1,
) -> float:
    """Returns the seconds that one or several programs at once take on some cores."""
    with contextlib.ExitStack() as stack:
        running = []
        start = time.perf_counter()
        for _ in range(at_once):
            output_dir = stack.enter_context(tempfile.TemporaryDirectory())
            command = ["build_pretraining_dataset.py", "--corpus-dir", str(corpus_dir)]
            command += ["--vocab-file", str(vocab_file), "--output-dir", output_dir]
            command += ["--num-processes", str(num_processes)]
            running.append(_start(command, cores, subprocess.DEVNULL))
        for process in running:
            _wait(process)
        return time.perf_counter() - start


def run_rust(num_threads: int, cores: list[int]) -> float:
    """Returns the seconds of the Rust tokenizer, in a process of its own."""
    command = ["-m", "benchmarks.corpus_building", f"--rust_threads={num_threads}"]
    command += [f"--corpus_dir={_CORPUS_DIR.value}", f"--vocab_file={_VOCAB_FILE.value}"]
    process = _start(command, cores, subprocess.PIPE, RAYON_NUM_THREADS=str(num_threads))
    output, _ = process.communicate()
    _wait(process)
    return json.loads(output)


def time_rust(corpus_dir: pathlib.Path, vocab_file: pathlib.Path) -> float:
    """Returns the seconds that the Rust tokenizer takes for the text in memory."""
    from tokenizers import BertWordPieceTokenizer

    rust = BertWordPieceTokenizer(str(vocab_file), lowercase=True, strip_accents=True)
    blocks = [block.lines for part in find_corpus(corpus_dir).parts for block in part.read()]
    lines = [line for block in blocks for line in block]
    start = time.perf_counter()
    for first in range(0, len(lines), _LINES_AT_ONCE):
        # The wrapper class does not offer the fast one.
        rust._tokenizer.encode_batch_fast(
            lines[first : first + _LINES_AT_ONCE], add_special_tokens=False
        )
    return time.perf_counter() - start


def _start(
    arguments: list[str], cores: list[int], stdout: int, **environment: str
) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=stdout,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true", **environment},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def _wait(process: subprocess.Popen) -> None:
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, process.args)


if __name__ == "__main__":
    program.run(main)
