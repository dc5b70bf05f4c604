r"""Makes the small reference set of tests/data from text of our own.

    python -m tests.reference.make_small_set

The format is that of the large set, which the authors' code made. Here the ids and the
examples come from the plain Python implementations beside the tests; those give the same
ids, examples and random draws as the large set. Public domain or made up: the text is a
speech of demo/corpus_heldout, sentences written for this purpose and random characters.
"""

import hashlib
import json
import pathlib
import random

import tensorflow as tf

from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from tests.electra_tf.text.plain_tokenizer import plain_tokenize
from tests.pretrain_data.examples.plain_examples import plain_examples

ROOT = pathlib.Path(__file__).parents[2]
VOCAB_FILE = ROOT / "recipes/vocab/bert_uncased_vocab.txt"
OUTPUT_DIR = ROOT / "tests/data/reference/pretraining"

TEXTS = [
    "A plain sentence, with a comma.",
    "Don't split can't-dos; e-mail me@example.org (or not)!",
    "Ærøskøbing, Škoda, naïve café, Zoë's façade, Ångström, ĳ ﬁne ½ ²",
    "cafe\u0301 Zoe\u0308 a\u030a i\u0307 \u0301 lone marks",
    "İstanbul ΑΣ ΣΑΣ Σ' ΌΣΟΣ. Straße STRASSE ẞ",
    "東京は日本の首都です。北京 上海 한국어 텍스트 ﾊﾝｶｸ",
    "Привет, мир! Ёлка й שָׁלוֹם مرحبا नमस्ते ไทย",
    "tabs\tand\rreturns\x0bvertical\x0cform\x1cfile\x1funit\x85next\u2028line\u2029end",
    "zero\u200bwidth soft\u00adhyphen \ufeffmark bidi\u202etext \u3000 wide \u1680 ogham",
    "nul\x00 del\x7f replacement\ufffd private\ue000 unassigned\u0378",
    "[CLS] [MASK] [SEP] [unused1] ##ing #tag $5.00 +1 <a> ^ ` | ~",
    "😀 👍🏽 👩‍👩‍👧 ❤️ ☃ “quotes” ‘single’ – — … ″ ′ €",
    "x" * 200 + " " + "x" * 201 + " " + "é" * 200 + "-" + "é" * 201,
    "antidisestablishmentarianism zzzzqqqq pneumonoultramicroscopic",
    "",
    "   ",
    "\u0301",
    "ϓ ϔ Å Ω ﬀ ǅ ǆ ŉ ΐ ᾳ ᾼ",
]
HOSTILE_CORPUS = "\n".join(
    [
        "",
        "",
        "The harbour was quiet when the first boats came in.",
        "Nobody had slept; the storm had seen to that.",
        "\u200b",
        "\u3000",
        "\x00",
        "Three lamps burned on the quay.\r",
        "\r",
        "A lone\rcarriage return, a line\u2028separator, a next\x85line and a form\x0cfeed.",
        "\x7f",
        "\ufffd",
        "",
        " ".join(f"word{i}" for i in range(300)),
        "Short.",
        "",
        "",
        "   \t ",
        "Καλημέρα, κόσμε. Ο Σίσυφος ΣΠΡΩΧΝΕΙ.",
        "Él pidió una ración; ñandú, pingüino.",
        "Она шла по берегу и считала лодки.",
        "第一艘船。",
        "",
        "Then the bells began, one after the other, and the town woke up street by street.",
        "By noon the nets were dry, the fish was sold, and the storm was a story.",
        "It grew in the telling.",
        "",
        "The last line has no end",
    ]
)
# The settings of the cases of the large set, on shorter text.
CASES = [
    ("pretraining_examples_128.jsonl", ["corpus.txt"], 128, 12345, True, True, True, 1),
    ("pretraining_examples_64.jsonl", ["corpus.txt"], 64, 777, True, True, True, 1),
    (
        "pretraining_examples_blanks_true.jsonl",
        ["corpus_small.txt"],
        24,
        31,
        True,
        True,
        True,
        1,
    ),
    (
        "pretraining_examples_blanks_false.jsonl",
        ["corpus_small.txt"],
        24,
        31,
        False,
        True,
        True,
        1,
    ),
    ("pretraining_examples_cased.jsonl", ["corpus_small.txt"], 16, 8, True, False, False, 1),
    (
        "pretraining_examples_twice.jsonl",
        ["corpus_small.txt"] * 2,
        20,
        99,
        True,
        True,
        False,
        3,
    ),
]


def main() -> None:
    """Writes every file of the set."""
    OUTPUT_DIR.mkdir(parents=True, exist_ok=True)
    vocabulary = load_vocabulary(VOCAB_FILE)
    _write_tokenization(vocabulary)
    speech = (ROOT / "demo/corpus_heldout/inaugural_addresses.txt").read_text().split("\n")
    corpora = {
        "corpus.txt": "\n".join([*speech[:16], "", "", *TEXTS, "", *speech[16:32], ""]),
        "corpus_small.txt": HOSTILE_CORPUS,
    }
    for name, text in corpora.items():
        (OUTPUT_DIR / name).write_bytes(text.encode())
    meta = {
        "vocab": {"name": "BERT uncased vocab.txt", "sha256": vocabulary.sha256},
        "corpus_sha256": {
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in corpora.items()
        },
        "cases": [_write_case(vocabulary, corpora, *case) for case in CASES],
    }
    text = json.dumps(meta, indent=1) + "\n"
    (OUTPUT_DIR / "pretraining_examples_meta.json").write_text(text)


def _write_tokenization(vocabulary: Vocabulary) -> None:
    rng = random.Random(2)
    blocks = [(32, 127), (160, 0x250), (0x300, 0x530), (0x900, 0xE00), (0x1E00, 0x2100)]
    blocks += [(0x2190, 0x2600), (0x3000, 0x3100), (0x4E00, 0x4E40), (0x1F300, 0x1F650)]
    texts = list(TEXTS)
    for _ in range(100):
        ranges = [rng.choice(blocks) for _ in range(rng.randint(1, 6))]
        texts.append("".join(chr(rng.randrange(*r)) for r in ranges for _ in range(5)))
    with open(OUTPUT_DIR / "tokenization.jsonl", "w") as f:
        for text in texts:
            row = {
                "text": text,
                "ids_lower": plain_tokenize(text, vocabulary),
                "ids_cased": plain_tokenize(text, vocabulary, False, False),
                "ids_lower_keep_accents": plain_tokenize(text, vocabulary, True, False),
            }
            f.write(json.dumps(row) + "\n")


def _write_case(
    vocabulary: Vocabulary,
    corpora: dict[str, str],
    file: str,
    names: list[str],
    max_seq_length: int,
    seed: int,
    blanks_separate_docs: bool,
    do_lower_case: bool,
    strip_accents: bool,
    num_out_files: int,
) -> dict:
    examples, next_random = plain_examples(
        # As the authors' reader hands it on.
        [corpora[name].replace("\r", "") for name in names],
        lambda text: plain_tokenize(text, vocabulary, do_lower_case, strip_accents),
        vocabulary.cls_id,
        vocabulary.sep_id,
        max_seq_length,
        seed,
        blanks_separate_docs,
    )
    with open(OUTPUT_DIR / file, "w") as f:
        f.writelines(json.dumps(example) + "\n" for example in examples)
    if num_out_files > 1:
        _write_shards(examples, max_seq_length, num_out_files)
    lengths = [len(example["input_ids"]) for example in examples]
    return {
        "file": file,
        "corpora": names,
        "max_seq_length": max_seq_length,
        "seed": seed,
        "blanks_separate_docs": blanks_separate_docs,
        "do_lower_case": do_lower_case,
        "strip_accents": strip_accents,
        "num_out_files": num_out_files,
        "n_examples": len(examples),
        "n_two_segment": sum(1 in example["segment_ids"] for example in examples),
        "n_full_length": lengths.count(max_seq_length),
        "min_len": min(lengths),
        "next_random_after": next_random,
    }


def _write_shards(examples: list[dict], max_seq_length: int, num_out_files: int) -> None:
    for shard in range(num_out_files):
        path = OUTPUT_DIR / f"pretrain_data-{shard}-of-{num_out_files}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples[shard::num_out_files]:
                length = len(example["input_ids"])
                values = {**example, "input_mask": [1] * length}
                message = tf.train.Example()
                for name, list_ in values.items():
                    padded = list_ + [0] * (max_seq_length - length)
                    message.features.feature[name].int64_list.value.extend(padded)
                writer.write(message.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
