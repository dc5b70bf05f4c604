"""The study's data: a vocabulary, records of novels, and tasks; made once."""

import os
import pathlib
import shutil
from collections.abc import Callable, Sequence

from benchmarks.finetuning_runs import run_logged
from electra_tf.util.errors import UserError

# One file in so many is held out; where a file is a novel, whole novels.
HELD_OUT = 25
_FIRST_HELD_OUT = HELD_OUT // 2
_SUFFIXES = (".txt", ".txt.gz")
# The rows of a test set whose labels are in a file of their own.
_TEST_LABELS = "test_labels.tsv"


def prepare(
    corpus_dir: pathlib.Path,
    finetuning_data_dir: pathlib.Path,
    data_dir: pathlib.Path,
    *,
    vocab_size: int,
    seq_length: int,
    shorter_lengths: Sequence[int],
    tasks: Sequence[str],
    num_processes: int,
    print_fn: Callable[[str], None] = print,
) -> None:
    """Makes the vocabulary, the records and the data of the tasks.

    These are `vocab.txt`, `pretrain_tfrecords`, `eval_tfrecords` and `finetuning_data`. What
    is there already is left alone. The unit of a row is a sentence. Where a task's test labels
    are known, its test set takes the place of the dev set, which settings are chosen on.

    Args:
        corpus_dir, finetuning_data_dir, data_dir: of the text, the tasks, and all output.
        vocab_size, seq_length: of the records.
        shorter_lengths: of the first records of a length curriculum.
        tasks: whose data is copied, in the authors' layout.
        num_processes: that build records.
        print_fn: prints a message.

    Raises:
        UserError: there is no text, no task data, or a program failed; its log is named.
    """
    for task in tasks:
        target = data_dir / "finetuning_data" / task
        if not target.exists():
            if not (finetuning_data_dir / task).is_dir():
                raise UserError(
                    f"--finetuning_data_dir={finetuning_data_dir} has no folder {task}"
                )
            _copy_task(finetuning_data_dir / task, target)
    train, held_out = data_dir / "corpus", data_dir / "corpus_heldout"
    if not held_out.exists():
        _split_corpus(corpus_dir, train, held_out)
    vocabulary = data_dir / "vocab.txt"
    if not vocabulary.exists():
        print_fn("Building the vocabulary …")
        _run(
            data_dir,
            "build_vocabulary.py",
            f"--corpus-dir={train}",
            f"--vocab-size={vocab_size}",
            f"--output-file={vocabulary}",
        )
    records = [
        (train, "pretrain_tfrecords", seq_length),
        (held_out, "eval_tfrecords", seq_length),
        *((train, f"pretrain_tfrecords_{length}", length) for length in shorter_lengths),
    ]
    for corpus, name, length in records:
        if not (data_dir / name).exists():
            print_fn(f"Building {name} …")
            _run(
                data_dir,
                "build_pretraining_dataset.py",
                f"--corpus-dir={corpus}",
                f"--vocab-file={vocabulary}",
                f"--output-dir={data_dir / name}",
                f"--max-seq-length={length}",
                "--sentences=split",
                f"--num-processes={num_processes}",
                "--seed=1",
            )


def _split_corpus(
    corpus_dir: pathlib.Path, train: pathlib.Path, held_out: pathlib.Path
) -> None:
    """Divides the files by links: every `HELD_OUT`-th is held out."""
    files = sorted(p for p in corpus_dir.glob("**/*") if p.name.endswith(_SUFFIXES))
    if len(files) < 2:
        raise UserError(
            f"--corpus_dir={corpus_dir} holds {len(files)} .txt or .txt.gz files; to hold one "
            "out, the study needs two"
        )
    first = min(_FIRST_HELD_OUT, len(files) - 1)
    part = held_out.with_suffix(".part")
    for folder in (part, train):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for i, path in enumerate(files):
        folder = part if i % HELD_OUT == first else train
        os.symlink(path.absolute(), folder / f"{i:03}_{path.name}")
    part.rename(held_out)


def _copy_task(source: pathlib.Path, target: pathlib.Path) -> None:
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for path in source.glob("train.*"):
        shutil.copyfile(path, part / path.name)
    if (source / "test.txt").exists():
        shutil.copyfile(source / "test.txt", part / "dev.txt")
    elif (source / _TEST_LABELS).exists():
        (part / "dev.tsv").write_text(labeled_test_set(source), encoding="utf-8")
    else:
        shutil.copyfile(source / "dev.tsv", part / "dev.tsv")
    part.rename(target)


def labeled_test_set(folder: pathlib.Path) -> str:
    """Returns `test.tsv` with the labels of `test_labels.tsv`, in the columns of `dev.tsv`."""

    def rows(name: str) -> list[list[str]]:
        lines = (folder / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        return [line.split("\t") for line in lines]

    header = rows("dev.tsv")[0]
    test, labels = rows("test.tsv")[1:], rows(_TEST_LABELS)[1:]
    labeled = []
    for row, (_, label) in zip(test, labels, strict=True):
        if header[0] == "Quality":  # of MRPC: the label, in the place of the index
            row = [label, *row[1:]]
        else:
            row = [*row, label]
            row = row[len(row) - len(header) :]  # SST-2's dev set has no index
        if len(row) != len(header):
            raise UserError(f"{folder / 'test.tsv'}: {row} does not fit {header}")
        labeled.append(row)
    return "".join("\t".join(row) + "\n" for row in [header, *labeled])


def _run(data_dir: pathlib.Path, program: str, *arguments: str) -> None:
    log = data_dir / "data.log"
    if run_logged([program, *arguments], log, {}):
        raise UserError(f"{program} failed; see {log}")
