"""The study's data: a vocabulary and records of the corpus, made once."""

import pathlib
import shutil
from collections.abc import Callable

from benchmarks.finetuning_runs import run_logged
from electra_tf.errors import UserError

# Every fiftieth document is held out.
HELD_OUT = 50


def prepare(
    corpus_dir: pathlib.Path,
    finetuning_data_dir: pathlib.Path,
    data_dir: pathlib.Path,
    *,
    vocab_size: int,
    seq_length: int,
    say: Callable[[str], None] = print,
) -> None:
    """Makes `vocab.txt`, `pretrain_tfrecords`, `eval_tfrecords` and `finetuning_data`.

    What is there already is left alone.

    Raises:
        UserError: there is no text, no task data, or a program failed; its log is named.
    """
    if not finetuning_data_dir.is_dir():
        raise UserError(f"--finetuning_data_dir={finetuning_data_dir} is no folder")
    train, held_out = data_dir / "corpus", data_dir / "corpus_heldout"
    if not held_out.exists():
        _split_corpus(corpus_dir, train, held_out)
    vocabulary = data_dir / "vocab.txt"
    if not vocabulary.exists():
        say("Building the vocabulary …")
        _run(
            data_dir,
            "build_vocabulary.py",
            f"--corpus-dir={train}",
            f"--vocab-size={vocab_size}",
            f"--output-file={vocabulary}",
        )
    for corpus, name in ((train, "pretrain_tfrecords"), (held_out, "eval_tfrecords")):
        if not (data_dir / name).exists():
            say(f"Building {name} …")
            _run(
                data_dir,
                "build_pretraining_dataset.py",
                f"--corpus-dir={corpus}",
                f"--vocab-file={vocabulary}",
                f"--output-dir={data_dir / name}",
                f"--max-seq-length={seq_length}",
                "--seed=1",
            )
    link = data_dir / "finetuning_data"
    if not link.exists():
        link.symlink_to(finetuning_data_dir.absolute(), target_is_directory=True)


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
