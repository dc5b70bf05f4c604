"""The tokenizer of a Hugging Face model folder: casing, vocabulary, differences from ours.

Imports no TensorFlow.
"""

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from electra_tf.interop.model_checkpoint import ModelDescription
from electra_tf.text.vocabulary import (
    CLS,
    CONTINUATION,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    VOCAB_FILE,
    plain_vocabulary,
)
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, read_object, read_switch, to_json

TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
TOKENIZER_FILE = "tokenizer.json"
ADDED_TOKENS_FILE = "added_tokens.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
# For BERT's tokenizer classes, transformers takes the settings from tokenizer_config.json and
# overwrites the normalizer of tokenizer.json; for the others, it takes tokenizer.json as it is.
_BERT_CLASSES = ("ElectraTokenizer", "BertTokenizer")
_FILE_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_PRE_TOKENIZER = "BertPreTokenizer"
# Hugging Face's names of the special tokens in inputs. [PAD] may differ, as padding is masked.
_SPECIAL = {"unk_token": UNK, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
_TOKENS_SHOWN = 5


class TokenizerSettings(NamedTuple):
    """Settings of the tokenizer here, its vocabulary, and notes on what is lost.

    Attributes:
        do_lower_case, strip_accents: settings of this project's tokenizer.
        is_recorded: whether the folder records them; otherwise, they are assumed.
        vocabulary: contents of vocab.txt; None if there is none.
        notes: what is lost.
    """

    do_lower_case: bool
    strip_accents: bool
    is_recorded: bool
    vocabulary: bytes | None
    notes: tuple[str, ...]


def read_tokenizer(
    folder: str, config: Mapping[str, Any], vocab_size: int
) -> TokenizerSettings:
    """Returns the tokenizer of a folder.

    Args:
        folder: the folder.
        config: contents of its `config.json`.
        vocab_size: number of embeddings; ids of tokens must be below.

    Raises:
        UserError: a file cannot be read.
    """
    tokenizer_file = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    tokenizer = read_json(tokenizer_file)
    fast_file = os.path.join(folder, TOKENIZER_FILE)
    name = str(
        tokenizer.get("tokenizer_class") or config.get("tokenizer_class") or _BERT_CLASSES[0]
    )
    fast, notes = _fast_switches(fast_file)
    if name.removesuffix("Fast") in _FILE_CLASSES and os.path.exists(fast_file):
        switches = fast
        notes += _pipeline_notes(fast_file)
        is_recorded = True
    else:
        switches = _switches(tokenizer, tokenizer_file)
        ignored = _ignored(fast, switches)
        if ignored:
            notes.append(
                f"{', '.join(ignored)} of the normalizer in tokenizer.json: transformers takes "
                f"these settings of {name:.40} from tokenizer_config.json, and so does this "
                "project"
            )
        is_recorded = bool(tokenizer or (fast.lower is not None and not ignored))
    lower, strip = bool(switches.lower), bool(switches.strip)
    if strip and not lower:
        notes.append(
            "strip_accents without do_lower_case: here, accents are only stripped from "
            "lowercased text, so this tokenizer keeps them"
        )
    if not switches.chinese:
        notes.append(
            "tokenize_chinese_chars is false: the tokenizer here always splits CJK characters, "
            "so texts with them get different tokens"
        )
    if not read_switch(tokenizer, "do_basic_tokenize", True, tokenizer_file):
        notes.append(
            "do_basic_tokenize is false: the tokenizer here always splits text at whitespace "
            "and punctuation"
        )
    if name.removesuffix("Fast") not in (*_BERT_CLASSES, *_FILE_CLASSES):
        notes.append(
            f"tokenizer_class {name:.40}: the tokenizer here is BERT's, so texts can get "
            "different tokens"
        )
    notes += _special_token_notes(folder, tokenizer)
    vocabulary = _read_vocabulary(folder, tokenizer, vocab_size, notes)
    return TokenizerSettings(lower, strip and lower, is_recorded, vocabulary, tuple(notes))


class _Switches(NamedTuple):
    """Settings of BERT's normalizer; None where a file has none."""

    lower: bool | None = None
    strip: bool | None = None
    chinese: bool | None = None


def _switches(tokenizer: Mapping[str, Any], path: str) -> _Switches:
    """Returns the settings of a tokenizer_config.json, with the defaults of transformers."""
    lower = read_switch(tokenizer, "do_lower_case", True, path)
    # By default, accents are stripped from lowercased text.
    strip = read_switch(tokenizer, "strip_accents", lower, path)
    return _Switches(lower, strip, read_switch(tokenizer, "tokenize_chinese_chars", True, path))


def _ignored(fast: _Switches, switches: _Switches) -> list[str]:
    """Returns the settings of tokenizer.json that those of tokenizer_config.json overwrite."""
    if fast.lower is None:
        return []
    pairs = zip(
        ("lowercase", "strip_accents", "handle_chinese_chars"), fast, switches, strict=True
    )
    return [f"{name} {str(theirs).lower()}" for name, theirs, ours in pairs if theirs != ours]


def _fast_switches(fast_file: str) -> tuple[_Switches, list[str]]:
    """Returns settings of the normalizer in a tokenizer.json, and notes on unsupported ones."""
    settings, notes = _normalizer(fast_file)
    if not settings:
        return _Switches(), notes
    lower = read_switch(settings, "lowercase", False, fast_file)
    strip = read_switch(settings, "strip_accents", lower, fast_file)
    chinese = read_switch(settings, "handle_chinese_chars", False, fast_file)
    return _Switches(lower, strip, chinese), notes


def _pipeline_notes(fast_file: str) -> list[str]:
    """Returns notes on the steps of a tokenizer.json that differ from BERT's tokenizer."""
    notes = []
    settings, _ = _normalizer(fast_file)
    if not read_switch(settings, "clean_text", True, fast_file):
        notes.append(
            "clean_text is false: the tokenizer here always removes control characters, so "
            "texts with them get different tokens"
        )
    given = read_object(fast_file, "pre_tokenizer").get("type")
    if given != _PRE_TOKENIZER:
        notes.append(
            f"the pre_tokenizer {given!s:.40} of tokenizer.json: the tokenizer here is BERT's, "
            "so texts can get different tokens"
        )
    frame = _frame(fast_file)
    if frame != (CLS, None, SEP):
        shown = " ".join(str(token or "text") for token in frame)
        notes.append(
            f"the post_processor of tokenizer.json makes {shown!r:.60}: inputs here are "
            f"'{CLS} text {SEP}'"
        )
    return notes


def _frame(fast_file: str) -> tuple[str | None, ...]:
    """Returns the special tokens that a tokenizer.json puts around a text; None is the text."""
    given = read_object(fast_file, "post_processor")
    try:
        if "cls" in given:
            return given["cls"][0], None, given["sep"][0]
        pieces = given.get("single") or [{}]
        return tuple(piece.get("SpecialToken", {}).get("id") for piece in pieces)
    except (AttributeError, LookupError, TypeError) as error:
        raise UserError(f"{fast_file}: post_processor cannot be read: {given!r:.80}") from error


def _special_token_notes(folder: str, tokenizer: Mapping[str, Any]) -> list[str]:
    """Returns notes on special tokens whose names differ from those of this project."""
    given = dict(tokenizer)
    if "added_tokens_decoder" not in tokenizer:  # as transformers does
        given |= read_json(os.path.join(folder, SPECIAL_TOKENS_FILE))
    notes = []
    for name, ours in _SPECIAL.items():
        value = given.get(name)
        token = value.get("content") if isinstance(value, dict) else value
        if token not in (None, ours):
            notes.append(f"{name} {token!r:.40}: it is always {ours} here, so inputs differ")
    return notes


def _normalizer(fast_file: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the settings of BERT's normalizer in a tokenizer.json, and notes on others."""
    given = read_object(fast_file, "normalizer")
    if not given:
        return {}, []
    each = given.get("normalizers") if given.get("type") == "Sequence" else [given]
    if not isinstance(each, list) or not all(isinstance(part, dict) for part in each):
        raise UserError(f"{fast_file}: the normalizers of a Sequence must be objects")
    settings: dict[str, Any] = {}
    notes = []
    for part in each:
        name = part.get("type", "BertNormalizer")
        if name == "BertNormalizer":
            settings |= {"lowercase": True, "handle_chinese_chars": True, **part}
        elif name == "Lowercase":
            settings |= {
                "lowercase": True,
                "strip_accents": settings.get("strip_accents", False),
            }
        elif name == "StripAccents":
            settings["strip_accents"] = True
        else:
            notes.append(
                f"the normalizer {name!s:.40} of tokenizer.json: the tokenizer here is BERT's, "
                "so texts can get different tokens"
            )
    return settings, notes


def _read_vocabulary(
    folder: str, tokenizer: Mapping[str, Any], vocab_size: int, notes: list[str]
) -> bytes | None:
    """Returns the vocabulary, extended by added tokens with ids beyond its end."""
    fast_file = os.path.join(folder, TOKENIZER_FILE)
    path = pathlib.Path(folder, VOCAB_FILE)
    content = fast = _fast_vocabulary(fast_file, vocab_size)
    if path.exists():
        content = path.read_bytes()
        _check_same_tokens(content, fast or b"", folder)
    if content is None:
        return None
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    missing, added = [], {}
    for number, token in _added_tokens(folder, tokenizer):
        if number == len(lines) + len(missing) < vocab_size:
            missing.append(token)
        is_known = number < min(len(lines) + len(missing), vocab_size)
        if is_known and token not in SPECIAL_TOKENS:
            added[number] = token
    if added:
        shown = ", ".join(list(added.values())[:_TOKENS_SHOWN])
        notes.append(
            f"{len(added)} added tokens ({shown}{', …' * (len(added) > _TOKENS_SHOWN)}): the "
            "tokenizer here looks for them in words only, after splitting text at punctuation"
        )
    if not missing:
        return content
    return b"".join(line + b"\n" for line in lines) + _lines(missing)


def _check_same_tokens(plain: bytes, fast: bytes, folder: str) -> None:
    """Raises UserError if vocab.txt and tokenizer.json have different tokens for an id.

    Ids without a token in one of them are ignored.
    """
    lines = [content.decode("utf-8", "replace").split("\n") for content in (plain, fast)]
    for number, tokens in enumerate(zip(*lines, strict=False)):
        ours, theirs = (token.strip("\ufeff \t\r") for token in tokens)
        if ours != theirs and ours and theirs:
            raise UserError(
                f"{folder}: token {number} is {ours!r:.40} in {VOCAB_FILE} and {theirs!r:.40} "
                f"in {TOKENIZER_FILE}, which transformers uses: delete the file that does not "
                "belong to this model"
            )


def _fast_vocabulary(fast_file: str, vocab_size: int) -> bytes | None:
    """Returns the vocabulary in a tokenizer.json; None if it is not of WordPiece."""
    model = read_object(fast_file, "model")
    if model.get("type") != "WordPiece":
        return None
    prefix = model.get("continuing_subword_prefix", CONTINUATION)
    if prefix != CONTINUATION:
        raise UserError(
            f"{fast_file}: continuing_subword_prefix must be {CONTINUATION!r}, not {prefix!r}"
        )
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not all(type(number) is int for number in ids.values()):
        raise UserError(f"{fast_file}: the vocab of the model must be an object of token ids")
    tokens = {number: token for token, number in ids.items()}
    for number, token in _listed_tokens(fast_file):
        tokens.setdefault(number, token)
    last = max(tokens, default=-1)
    if len(tokens) < len(ids) or min(tokens, default=0) < 0 or last > len(ids) + vocab_size:
        raise UserError(
            f"{fast_file}: the tokens of the model need distinct ids from 0; the "
            f"{len(ids)} tokens have {len(set(ids.values()))} ids up to {last}"
        )
    # An empty line is an id without token.
    return _lines([tokens.get(number, "") for number in range(last + 1)])


def _lines(tokens: list[str]) -> bytes:
    """Returns one line per token, which is empty for a token with a line break in it."""
    lines = (f"{'' if chr(10) in token else token}\n" for token in tokens)
    return "".join(lines).encode("utf-8", "replace")


def _added_tokens(folder: str, tokenizer: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Returns ids and texts of the tokens that were added to a vocabulary, by id."""
    added = list(_listed_tokens(os.path.join(folder, TOKENIZER_FILE)))
    ids = read_json(os.path.join(folder, ADDED_TOKENS_FILE))
    added += [(number, token) for token, number in ids.items() if type(number) is int]
    decoder = tokenizer.get("added_tokens_decoder")
    for number, entry in decoder.items() if isinstance(decoder, dict) else ():
        if number.isdecimal() and isinstance(entry, dict):
            added.append((int(number), str(entry.get("content", ""))))
    return sorted(added)


def _listed_tokens(fast_file: str) -> Iterator[tuple[int, str]]:
    """Yields ids and texts of the `added_tokens` of a tokenizer.json."""
    listed = read_json(fast_file).get("added_tokens")
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and type(entry.get("id")) is int:
            yield entry["id"], str(entry.get("content", ""))


def tokenizer_files(
    description: ModelDescription, longest_text: int | None
) -> dict[str, bytes]:
    """Returns the contents of the tokenizer files by name.

    Args:
        description: description of the model.
        longest_text: number of tokens to which training truncated texts; None if unknown.
    """
    positions = description.encoder.max_position_embeddings
    special = {"pad_token": PAD, **_SPECIAL}
    settings = {
        "tokenizer_class": "ElectraTokenizer",
        "do_lower_case": description.do_lower_case,
        "strip_accents": description.strip_accents and description.do_lower_case,
        "tokenize_chinese_chars": True,
        "model_max_length": min(longest_text or positions, positions),
        **special,
    }
    return {
        VOCAB_FILE: plain_vocabulary(description.vocabulary),
        TOKENIZER_CONFIG_FILE: to_json(settings),
        SPECIAL_TOKENS_FILE: to_json(special),
    }
