r"""Compares corpus building with the Rust `tokenizers`, and one process with two.

    python -m benchmarks.corpus_building

Ours goes all the way: read, tokenize, build examples, write records. The other one, the
BertWordPieceTokenizer of the package `tokenizers` on one thread, only tokenizes lines that
are in memory already. Both run on one core, by turns, in this process. Loading the
libraries is not counted.
The other table runs the program itself. Its text repeats, so that every word is soon known
and MB/s are higher than on new text; the speed-up is what it is for. That is held back by
the repeating too: each process tokenizes every word once, which one process does once.
Needs `pip install tokenizers`.
"""

import contextlib
import functools
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
_SCALING_RUNS = flags.DEFINE_integer(
    "scaling_runs", 3, "Runs of the program with one and two processes.", lower_bound=1
)

TWO_PROGRAMS = "two programs"


def main() -> None:
    """Prints both tables."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from electra_tf.util.tensorflow_import import import_tensorflow

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
    print(
        f"\nOne file of {copies} copies of the text, {copies * len(content) / 1e6:.0f} MB; "
        f"medians of {_SCALING_RUNS.value} runs by turns\n"
        "  processes   seconds   of it start   MB/s after the start   speed-up, with the start"
    )
    texts = {"start": content.partition(b"\n")[0], "all": content * copies}
    seconds: dict[tuple[str, int | str], list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, text in texts.items():
            path = pathlib.Path(directory, name, "text.txt")
            path.parent.mkdir()
            path.write_bytes(text)
        for _ in range(_SCALING_RUNS.value):
            for name in texts:
                for num_processes, at_once in ((1, 1), (2, 1), (1, 2)):
                    call = functools.partial(
                        _run_programs,
                        pathlib.Path(directory, name),
                        vocab_file,
                        num_processes,
                        at_once,
                    )
                    case = (name, num_processes if at_once == 1 else TWO_PROGRAMS)
                    seconds.setdefault(case, []).append(_timed(call))
    median = {case: statistics.median(values) for case, values in seconds.items()}
    working = {n: median["all", n] - median["start", n] for n in (1, 2, TWO_PROGRAMS)}
    for n in (1, 2):
        print(
            f"  {n:>9}{median['all', n]:>10.1f}{median['start', n]:>14.1f}"
            f"{copies * len(content) / 1e6 / working[n]:>23.2f}"
            f"{working[1] / working[n]:>11.2f}{median['all', 1] / median['all', n]:>16.2f}"
        )
    print(
        "  The most to expect: two programs at once, each with one process and a text of its "
        f"own,\n  do {2 * working[1] / working[TWO_PROGRAMS]:.2f} times the work of one in "
        "its time."
    )


def build(corpus_dir: pathlib.Path, vocab_file: pathlib.Path) -> None:
    """Builds in this process, into a directory that is removed again."""
    from pretrain_data.build.dataset import CorpusBuildConfig, build_pretraining_data

    with tempfile.TemporaryDirectory() as output_dir:
        config = CorpusBuildConfig(corpus_dir, vocab_file, pathlib.Path(output_dir))
        build_pretraining_data(config, print_fn=lambda message: None)


def _start_tokenizer(vocab_file: pathlib.Path) -> None:
    from electra_tf.text.tokenizer import Tokenizer
    from electra_tf.text.vocabulary import load_vocabulary

    Tokenizer(load_vocabulary(vocab_file)).tokenize(["text"])


def _run_programs(
    corpus_dir: pathlib.Path, vocab_file: pathlib.Path, num_processes: int, at_once: int
) -> None:
    with contextlib.ExitStack() as stack:
        running = []
        for _ in range(at_once):
            output_dir = stack.enter_context(tempfile.TemporaryDirectory())
            command = [sys.executable, "build_pretraining_dataset.py"]
            command += ["--corpus-dir", str(corpus_dir), "--vocab-file", str(vocab_file)]
            command += ["--output-dir", output_dir, "--num-processes", str(num_processes)]
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for process in running:
            if process.wait():
                raise subprocess.CalledProcessError(process.returncode, process.args)


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    command_line.run(main)
