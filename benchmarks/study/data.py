"""The study's data: a vocabulary, records of the corpus, small training sets; made once."""

import pathlib
import shutil
from collections.abc import Callable, Sequence

from benchmarks.finetuning_runs import run_logged
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_lines
from pretrain_data.records.token_counts import count_tokens

# Every fiftieth document is held out.
HELD_OUT = 50


def prepare(
    corpus_dir: pathlib.Path,
    finetuning_data_dir: pathlib.Path,
    data_dir: pathlib.Path,
    *,
    vocab_size: int,
    seq_length: int,
    tasks: Sequence[str],
    num_train_examples: int,
    print_fn: Callable[[str], None] = print,
) -> None:
    """Makes `vocab.txt`, `pretrain_tfrecords`, `eval_tfrecords` and `finetuning_data`.

    What is there already is left alone.

    Args:
        corpus_dir, finetuning_data_dir, data_dir: of the text, the tasks, and all output.
        vocab_size, seq_length: of the records.
        tasks: whose data is copied, in the authors' layout.
        num_train_examples: of each task, from the beginning of its training set.
        print_fn: told what is being done.

    Raises:
        UserError: there is no text, no task data, or a program failed; its log is named.
    """
    for task in tasks:
        target = data_dir / "finetuning_data" / task
        if not target.exists():
            _copy_task(_task_folder(finetuning_data_dir, task), target, num_train_examples)
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
    for corpus, name in ((train, "pretrain_tfrecords"), (held_out, "eval_tfrecords")):
        if not (data_dir / name).exists():
            print_fn(f"Building {name} …")
            _run(
                data_dir,
                "build_pretraining_dataset.py",
                f"--corpus-dir={corpus}",
                f"--vocab-file={vocabulary}",
                f"--output-dir={data_dir / name}",
                f"--max-seq-length={seq_length}",
                "--seed=1",
            )


def most_frequent_share(data_dir: pathlib.Path, *, vocab_size: int, seq_length: int) -> float:
    """Returns the share of the most frequent word in the held-out records."""
    counts = count_tokens(
        str(data_dir / "eval_tfrecords" / "*.tfrecord*"),
        vocab_size=vocab_size,
        max_seq_length=seq_length,
    )
    lines = read_lines(data_dir / "vocab.txt")
    counts = [n for word, n in zip(lines, counts, strict=False) if not word.startswith("[")]
    return float(max(counts) / sum(counts))


def _task_folder(finetuning_data_dir: pathlib.Path, task: str) -> pathlib.Path:
    # The files of CoNLL-2000 have parts of speech beside the chunks.
    names = (task, "chunk") if task == "pos" else (task,)
    for name in names:
        if (finetuning_data_dir / name).is_dir():
            return finetuning_data_dir / name
    raise UserError(
        f"--finetuning_data_dir={finetuning_data_dir} has no folder {' or '.join(names)}"
    )


def _copy_task(source: pathlib.Path, target: pathlib.Path, num_train_examples: int) -> None:
    """Copies the files of a task, and of its training set the first examples alone."""
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part)
    for path in part.glob("train.*"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".txt":
            sentences = [block for block in text.split("\n\n") if block.strip()]
            text = "\n\n".join(sentences[:num_train_examples]) + "\n"
        elif path.suffix == ".tsv":
            lines = text.split("\n")[: 1 + num_train_examples]
            text = "\n".join(lines).removesuffix("\n") + "\n"
        else:
            raise UserError(f"{source / path.name}: the study cuts .txt and .tsv files alone")
        path.write_text(text, encoding="utf-8")
    part.rename(target)


def _run(data_dir: pathlib.Path, program: str, *arguments: str) -> None:
    log = data_dir / "data.log"
    if run_logged([program, *arguments], log, {}):
        raise UserError(f"{program} failed; see {log}")


def _split_corpus(
    corpus_dir: pathlib.Path, train: pathlib.Path, held_out: pathlib.Path
) -> None:
    files = sorted(corpus_dir.glob("**/*.txt"))
    if not files:
        raise UserError(f"--corpus_dir={corpus_dir} holds no .txt files")
    folders = {True: held_out.with_suffix(".part"), False: train}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for path in files:
        documents = path.read_text(encoding="utf-8", errors="replace").split("\n\n")
        parts: dict[bool, list[str]] = {True: [], False: []}
        for i, document in enumerate(documents):
            parts[i % HELD_OUT == 0].append(document)
        for is_held_out, part in parts.items():
            (folders[is_held_out] / path.name).write_text("\n\n".join(part), encoding="utf-8")
    folders[True].rename(held_out)
