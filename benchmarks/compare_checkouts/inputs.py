"""Small inputs that all cases share: text, records, tasks and a pre-trained model."""

import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence

from benchmarks.compare_checkouts.cases import CASE, INPUTS, Case, Command

ROOT = pathlib.Path(__file__).parents[2]
VOCAB_SIZE = 400
SEQ_LENGTH, SHORT_LENGTH, POSITIONS = 16, 8, 32
SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": POSITIONS,
}
# Folder of the pre-trained model, which fine-tuning also writes into.
MODELS = "models"
MODEL_NAME = "small"
# Flags of every pre-training run, unless a case overrides them.
PRETRAINING = {
    "data_dir": INPUTS,
    "model_name": MODEL_NAME,
    "model_dir": f"{CASE}/model",
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 8,
    "model_hparam_overrides": SHAPE,
    "generator_hidden_size": 0.5,
    "max_seq_length": SEQ_LENGTH,
    "train_batch_size": 8,
    "eval_batch_size": 8,
    "num_train_steps": 20,
    "num_warmup_steps": 4,
    "iterations_per_loop": 4,
    "log_steps": 5,
    "save_checkpoints_steps": 10,
    "shuffle_buffer_size": 16,
    "learning_rate": 1e-3,
    "eval_tfrecords": f"{INPUTS}/eval_tfrecords/*.tfrecord*",
    "num_eval_steps": 4,
}
_TRAIN_CHARACTERS, _HELD_OUT_CHARACTERS = 40_000, 8_000
_SPLITS = {"train": 40, "dev": 13, "test": 6}
_OWN_KINDS = {
    "topic": ("classification", "tsv"),
    "topics": ("multilabel", "tsv"),
    "score": ("regression", "tsv"),
    "tags": ("tagging", "conll"),
    "answers": ("qa", "json"),
}
_TAGS = ("B-A", "I-A", "O", "B-B")

# Creates the inputs that take the project's programs.
PREPARATION = Case(
    "inputs",
    (
        Command(
            "build_vocabulary.py",
            {
                "corpus_dir": f"{CASE}/corpus",
                "output_file": f"{CASE}/vocab.txt",
                "vocab_size": VOCAB_SIZE,
            },
        ),
        *(
            Command(
                "build_pretraining_dataset.py",
                {
                    "corpus_dir": f"{CASE}/{corpus}",
                    "vocab_file": f"{CASE}/vocab.txt",
                    "output_dir": f"{CASE}/{records}",
                    "max_seq_length": length,
                    "num_out_files": 2,
                    "seed": 1,
                },
            )
            for corpus, records, length in (
                ("corpus", "pretrain_tfrecords", SEQ_LENGTH),
                ("corpus", f"pretrain_tfrecords_{SHORT_LENGTH}", SHORT_LENGTH),
                ("corpus_heldout", "eval_tfrecords", SEQ_LENGTH),
            )
        ),
        Command(
            "run_pretraining.py",
            {
                **PRETRAINING,
                "data_dir": CASE,
                "model_dir": f"{CASE}/models/{MODEL_NAME}",
                "eval_tfrecords": "",
            },
        ),
    ),
)


def write_files(folder: pathlib.Path) -> None:
    """Writes the inputs that are plain text: corpora, sentences and tasks."""
    train = _sentences(ROOT / "demo" / "corpus", _TRAIN_CHARACTERS)
    held_out = _sentences(ROOT / "demo" / "corpus_heldout", _HELD_OUT_CHARACTERS)
    for name, sentences in (("corpus", train), ("corpus_heldout", held_out)):
        _write(folder / name / "text.txt", _lines(sentences))
    short = [" ".join(sentence.split()[:6]) for sentence in held_out if " " in sentence]
    _write(folder / "sentences.txt", _lines(short[:12]))
    lists = [
        {
            "id": str(i),
            "reference": text,
            "hypotheses": [
                {"text": text, "score": -2.5},
                {"text": " ".join(text.split()[::-1]), "score": -2.0 - 0.1 * i},
            ],
        }
        for i, text in enumerate(short[:6])
    ]
    _write(folder / "nbest.jsonl", _lines(map(json.dumps, lists)))
    _write_tasks(folder, itertools.cycle(short))


def _write_tasks(folder: pathlib.Path, texts: Iterator[str]) -> None:
    """Writes tasks in the authors' layout and of every own kind; labels follow the words."""
    examples = {
        split: [next(texts).split() for _ in range(count)] for split, count in _SPLITS.items()
    }
    authors, own = folder / "finetuning_data", folder / "own_tasks"
    for split, rows in examples.items():
        labeled = [f"src\t{_label(row, 2)}\t\t{' '.join(row)}" for row in rows]
        unlabeled = ["index\tsentence"]
        unlabeled += [f"{i}\t{' '.join(row)}" for i, row in enumerate(rows)]
        cola = unlabeled if split == "test" else labeled
        _write(authors / "cola" / f"{split}.tsv", _lines(cola))
        _write(authors / "chunk" / f"{split}.txt", _tagged(rows, " X "))
        _write(authors / "squad" / f"{split}.json", _questions(rows))
        for name, label in _OWN_LABELS.items():
            table = [f"{' '.join(row)}\t{label(row)}" for row in rows]
            _write(own / f"{name}_{split}.tsv", _lines(["text\tlabel", *table]))
        _write(own / f"tags_{split}.conll", _tagged(rows, " "))
        _write(own / f"answers_{split}.json", _questions(rows, answerable=True))
    for name, (kind, suffix) in _OWN_KINDS.items():
        files = {split: f"{name}_{split}.{suffix}" for split in _SPLITS}
        spec = {"name": name, "kind": kind, "files": files}
        _write(own / f"{name}.json", json.dumps(spec, indent=2) + "\n")
    unlabeled = ["text", *(" ".join(row) for row in examples["test"])]
    _write(own / "new.tsv", _lines(unlabeled))


def _label(words: Sequence[str], count: int) -> int:
    return len(words[0]) % count


_OWN_LABELS: dict[str, Callable[[Sequence[str]], str]] = {
    "topic": lambda words: f"class{_label(words, 3)}",
    "topics": lambda words: ",".join(
        f"class{i}" for i in range(3) if len(words[i % len(words)]) % 2
    ),
    "score": lambda words: f"{len(words[0]) / 2}",
}


def _tagged(rows: Sequence[Sequence[str]], separator: str) -> str:
    sentences = (
        _lines(
            f"{word}{separator}{_TAGS[(i + len(word)) % len(_TAGS)]}"
            for i, word in enumerate(row)
        )
        for row in rows
    )
    return "\n".join(sentences)


def _questions(rows: Sequence[Sequence[str]], *, answerable: bool = False) -> str:
    """Returns SQuAD's JSON; every third question has no answer unless `answerable`."""
    paragraphs = []
    for i, row in enumerate(rows):
        # Longer than one window of `--max_seq_length`.
        context = " ".join([*rows[i - 1], *row, *rows[i - 2], *rows[i - 3]])
        word = row[-1]
        impossible = not answerable and i % 3 == 2
        answers = [] if impossible else [{"text": word, "answer_start": context.index(word)}]
        question = {"id": f"q{i}", "question": f"what is {word[:3]}?", "answers": answers}
        question |= {"is_impossible": impossible}
        paragraphs.append({"context": context, "qas": [question]})
    content = {"version": "v2.0", "data": [{"title": "text", "paragraphs": paragraphs}]}
    return json.dumps(content, indent=1) + "\n"


def _sentences(corpus: pathlib.Path, num_characters: int) -> list[str]:
    text = "\n".join(path.read_text("utf-8") for path in sorted(corpus.glob("*.txt")))
    return re.split(r"(?<=[.!?])\s+|\n", text[:num_characters])


def _lines(lines: Iterator[str] | Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
