"""Tokenizers of Hugging Face folders: what is read, and what is reported."""

import json
import pathlib
import shutil
from typing import Any

import pytest

from electra_tf.util.errors import UserError
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, format_of, read
from tests.electra_tf.interop.test_conversion import run
from tests.mutations import changed_values

NORMALIZER = {"type": "BertNormalizer", "lowercase": False, "strip_accents": None}


def make_folder(
    tmp_path: pathlib.Path, *, has_vocab_file: bool = True, **contents: Any
) -> pathlib.Path:
    """Returns a copy of a model without tokenizer settings, and with more files.

    Args:
        tmp_path: parent of the folder.
        has_vocab_file: whether it keeps its vocab.txt of 48 tokens.
        contents: contents of further JSON files by name.
    """
    folder = shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", tmp_path / "model")
    (folder / "tokenizer_config.json").unlink()
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    if not has_vocab_file:
        (folder / "vocab.txt").unlink()
    return folder


def tokens_of(folder: pathlib.Path) -> list[str]:
    return read(folder, "huggingface").description.vocabulary.decode().splitlines()


def word_pieces(**ids: int) -> dict[str, Any]:
    """Returns a tokenizer.json of the 48 tokens of the test data, with other ids."""
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokens = [*special, *(f"w{i}" for i in range(43))]
    vocab = {token: i for i, token in enumerate(tokens)}
    kept = {token: i for token, i in vocab.items() if i not in ids.values()}
    model = {"type": "WordPiece", "vocab": {**kept, **ids}}
    words = {"type": "BertPreTokenizer"}
    frame = {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    return {
        "model": model,
        "normalizer": NORMALIZER,
        "pre_tokenizer": words,
        "post_processor": frame,
    }


def template(*pieces: str) -> dict[str, Any]:
    """Returns a post_processor that makes the given tokens; "$A" is the text."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if piece == "$A"
        else {"SpecialToken": {"id": piece, "type_id": 0}}
        for piece in pieces
    ]
    return {"type": "TemplateProcessing", "single": single}


@pytest.mark.parametrize(
    ("normalizer", "lower", "strip", "noted"),
    [
        (NORMALIZER, False, False, []),
        (NORMALIZER | {"clean_text": False}, False, False, ["control characters"]),
        ({"type": "BertNormalizer", "strip_accents": False}, True, False, []),
        (
            {"type": "Sequence", "normalizers": [{"type": "NFC"}, NORMALIZER]},
            False,
            False,
            ["NFC"],
        ),
        ({"type": "Lowercase"}, True, False, ["CJK"]),
        (
            {
                "type": "Sequence",
                "normalizers": [{"type": "StripAccents"}, {"type": "Lowercase"}],
            },
            True,
            True,
            ["CJK"],
        ),
        ({"type": "Precompiled"}, False, False, ["Precompiled", "CJK"]),
        (None, False, False, ["CJK"]),
    ],
)
@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_normalizers(tmp_path, name, normalizer, lower, strip, noted):
    """Of tokenizers that only have a tokenizer.json, no other file has the settings."""
    folder = make_folder(
        tmp_path,
        tokenizer={**word_pieces(), "normalizer": normalizer},
        tokenizer_config={"tokenizer_class": name, "do_lower_case": not lower},
    )
    checkpoint = read(folder, "huggingface")
    description = checkpoint.description
    assert (description.do_lower_case, description.strip_accents) == (lower, strip)
    assert description.tokenizer_recorded
    for word, note in zip(noted, checkpoint.notes, strict=True):
        assert word in note


@pytest.mark.parametrize(
    ("normalizer", "settings", "lower", "strip", "ignored"),
    [
        (NORMALIZER, None, True, True, "lowercase false, strip_accents false"),
        (NORMALIZER, {}, True, True, "lowercase false, strip_accents false"),
        (NORMALIZER, {"do_lower_case": True}, True, True, "lowercase false"),
        (NORMALIZER, {"do_lower_case": False}, False, False, ""),
        (NORMALIZER | {"lowercase": True}, None, True, True, ""),
        (
            NORMALIZER | {"lowercase": True, "strip_accents": False},
            {"do_lower_case": True},
            True,
            True,
            "strip_accents false",
        ),
        (
            NORMALIZER | {"lowercase": True, "strip_accents": False},
            {"do_lower_case": True, "strip_accents": False},
            True,
            False,
            "",
        ),
        ({"type": "Lowercase"}, None, True, True, "strip_accents false, handle_chinese"),
    ],
)
def test_berts_tokenizer_has_the_settings_of_its_configuration(
    tmp_path, normalizer, settings, lower, strip, ignored
):
    """As in transformers, which replaces the normalizer of their tokenizer.json."""
    more = {} if settings is None else {"tokenizer_config": settings}
    folder = make_folder(
        tmp_path, tokenizer={**word_pieces(), "normalizer": normalizer}, **more
    )
    checkpoint = read(folder, "huggingface")
    description = checkpoint.description
    assert (description.do_lower_case, description.strip_accents) == (lower, strip)
    assert description.tokenizer_recorded == bool(settings or not ignored)
    assert [note.startswith(ignored) for note in checkpoint.notes] == [True] * bool(ignored)


@pytest.mark.parametrize("content", [{"type": "Whitespace"}, None])
def test_another_pre_tokenizer_is_reported(tmp_path, content):
    folder = make_folder(
        tmp_path,
        tokenizer={**word_pieces(), "pre_tokenizer": content},
        tokenizer_config={"tokenizer_class": "PreTrainedTokenizerFast"},
    )
    (note,) = read(folder, "huggingface").notes
    assert note.startswith(f"the pre_tokenizer {content and content['type']} of tokenizer.json")


@pytest.mark.parametrize(
    ("post_processor", "noted"),
    [
        (template("[CLS]", "$A", "[SEP]"), ""),
        (template("<s>", "$A", "[SEP]"), "makes '<s> text [SEP]'"),
        (template("$A", "[SEP]"), "makes 'text [SEP]'"),
        (None, "makes 'text'"),
    ],
)
def test_another_frame_is_reported(tmp_path, post_processor, noted):
    folder = make_folder(
        tmp_path,
        tokenizer={**word_pieces(), "post_processor": post_processor},
        tokenizer_config={"tokenizer_class": "PreTrainedTokenizerFast"},
    )
    notes = read(folder, "huggingface").notes
    assert [noted in note for note in notes] == [True] * bool(noted)


SPECIAL_TOKENS = {
    "cls_token": "w1",
    "sep_token": {"content": "w2"},
    "unk_token": "[UNK]",
    "pad_token": "w3",
    "mask_token": None,
}


@pytest.mark.parametrize(
    ("contents", "named"),
    [
        ({"tokenizer_config": SPECIAL_TOKENS}, ["cls_token 'w1'", "sep_token 'w2'"]),
        ({"special_tokens_map": SPECIAL_TOKENS}, ["cls_token 'w1'", "sep_token 'w2'"]),
        (
            {
                "tokenizer_config": {"mask_token": "w4", "added_tokens_decoder": {}},
                "special_tokens_map": SPECIAL_TOKENS,
            },
            ["mask_token 'w4'"],
        ),
    ],
)
def test_special_tokens_of_other_names_are_reported(tmp_path, contents, named):
    notes = read(make_folder(tmp_path, **contents), "huggingface").notes
    assert [note.partition(":")[0] for note in notes] == named


def test_two_vocabularies_are_refused(tmp_path):
    folder = make_folder(
        tmp_path,
        tokenizer=word_pieces(w4=8, w3=9),
        tokenizer_config={"do_lower_case": False},
    )
    said = r"token 8 is 'w3' in vocab\.txt and 'w4' in tokenizer\.json, which transformers"
    for act in (format_of("huggingface").read, format_of("huggingface").settings):
        with pytest.raises(UserError, match=said):
            act(str(folder))
    (folder / "vocab.txt").unlink()
    assert tokens_of(folder)[8:10] == ["w4", "w3"]


@pytest.mark.parametrize(
    ("tokenizer_config", "noted"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "tokenizer_class BertJapaneseTokenizer"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize is false"),
        ({"tokenizer_class": "BertTokenizerFast", "do_basic_tokenize": True}, ""),
        ({"tokenizer_class": "ElectraTokenizer"}, ""),
    ],
)
def test_other_tokenizers_are_reported(tmp_path, tokenizer_config, noted):
    notes = read(make_folder(tmp_path, tokenizer_config=tokenizer_config), "huggingface").notes
    assert [noted in note for note in notes] == [True] * bool(noted)


def test_the_class_of_the_tokenizer_can_be_in_the_configuration(tmp_path):
    folder = make_folder(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["tokenizer_class"] = "BertJapaneseTokenizer"
    (folder / "config.json").write_text(json.dumps(config))
    (note,) = read(folder, "huggingface").notes
    assert "BertJapaneseTokenizer" in note


@pytest.mark.parametrize(
    "contents",
    [
        {"added_tokens": {"<b>": 47, "<a>": 46, "[PAD]": 0}},
        {
            "tokenizer": {
                "added_tokens": [{"id": 46, "content": "<a>"}, {"id": 47, "content": "<b>"}]
            }
        },
        {
            "tokenizer_config": {
                "added_tokens_decoder": {
                    "0": {"content": "[PAD]"},
                    "46": {"content": "<a>"},
                    "47": {"content": "<b>"},
                }
            }
        },
    ],
    ids=lambda contents: next(iter(contents)),
)
def test_added_tokens_keep_their_names(tmp_path, contents):
    folder = make_folder(tmp_path, **contents)
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(tokens[:46]))
    assert tokens_of(folder) == [*tokens[:46], "<a>", "<b>"]
    (note,) = read(folder, "huggingface").notes
    assert note.startswith("2 added tokens (<a>, <b>)")


@pytest.mark.parametrize("has_vocab_file", [True, False])
def test_added_tokens_of_the_vocabulary_are_reported(tmp_path, has_vocab_file):
    """Those that transformers writes into tokenizer.json alone, among them."""
    tokens = [{"id": 4, "content": "[MASK]"}, {"id": 47, "content": "<b>"}]
    content = word_pieces(**{"<b>": 47})
    folder = make_folder(
        tmp_path,
        has_vocab_file=has_vocab_file,
        tokenizer={**content, "added_tokens": [*tokens, {"id": 48, "content": "<c>"}]},
        tokenizer_config={"do_lower_case": False},
    )
    if has_vocab_file:
        lines = (folder / "vocab.txt").read_text().splitlines()
        (folder / "vocab.txt").write_text("\n".join([*lines[:-1], "<b>"]))
    (note,) = read(folder, "huggingface").notes
    assert note.startswith("1 added tokens (<b>)")


def test_an_id_keeps_its_row_although_another_is_missing(tmp_path):
    tokenizer = word_pieces()
    del tokenizer["model"]["vocab"]["w3"]
    folder = make_folder(tmp_path, has_vocab_file=False, tokenizer=tokenizer)
    lines = run(folder, "huggingface", tmp_path / "there")
    assert any("1 lines of the vocabulary are empty" in line for line in lines)
    tokens = tokens_of(tmp_path / "there")
    assert (tokens[7], tokens[8], tokens[9]) == ("w2", "[unused_row_8]", "w4")
    tokenizer["added_tokens"] = [{"id": 8, "content": "<a>"}, {"id": 0, "content": "[PAD]"}]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert tokens_of(folder)[8] == "<a>"


def test_a_token_with_a_line_break_does_not_move_the_others(tmp_path):
    tokenizer = word_pieces(**{"a\nb": 9})
    folder = make_folder(tmp_path, has_vocab_file=False, tokenizer=tokenizer)
    tokens = tokens_of(folder)
    assert len(tokens) == 48
    assert (tokens[9], tokens[10]) == ("", "w5")


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ({"x": 7, "y": 7}, "the tokens of the model need distinct ids"),
        ({"x": -1}, "the tokens of the model need distinct ids"),
        ({"x": 10**9}, "the tokens of the model need distinct ids.* up to 1000000000"),
    ],
)
def test_ids_that_are_no_rows_are_refused(tmp_path, ids, said):
    folder = make_folder(tmp_path, has_vocab_file=False, tokenizer=word_pieces(**ids))
    with pytest.raises(UserError, match=f"tokenizer.json: {said}"):
        read(folder, "huggingface")


def test_other_continuations_are_refused(tmp_path):
    tokenizer = word_pieces()
    tokenizer["model"]["continuing_subword_prefix"] = "@@"
    folder = make_folder(tmp_path, has_vocab_file=False, tokenizer=tokenizer)
    with pytest.raises(UserError, match="continuing_subword_prefix must be '##', not '@@'"):
        read(folder, "huggingface")


@pytest.mark.parametrize("has_vocab_file", [True, False])
def test_any_value_of_a_tokenizer_is_read_or_refused(tmp_path, has_vocab_file):
    tokenizer = word_pieces()
    tokenizer["model"]["vocab"] = {"[PAD]": 0, "[UNK]": 1}
    tokenizer["added_tokens"] = [{"id": 2, "content": "[CLS]"}]
    tokenizer["normalizer"] = {"type": "Sequence", "normalizers": [NORMALIZER]}
    folder = make_folder(
        tmp_path,
        has_vocab_file=has_vocab_file,
        tokenizer=tokenizer,
        added_tokens={"<b>": 3},
        tokenizer_config={"added_tokens_decoder": {"4": {"content": "<c>"}}},
    )
    for file in ("tokenizer.json", "added_tokens.json", "tokenizer_config.json"):
        text = (folder / file).read_text()
        refusals = []
        for changed in changed_values(text):
            (folder / file).write_text(changed)
            try:
                format_of("huggingface").read(str(folder))
            except UserError as error:
                refusals.append(str(error))
        assert all(file in refusal for refusal in refusals)
        (folder / file).write_text(text)
