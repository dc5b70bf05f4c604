"""The description of a tokenizer, stored beside its vocabulary, in records and in models.

`vocab.txt` is described by `vocab.tokenizer.json`. Programs take their settings from it and
refuse flags that contradict it; a vocabulary without one can be used with any settings. They
warn of settings that differ from Hugging Face's `tokenizer_config.json` beside the vocabulary.
"""

import dataclasses
import hashlib
import json
import os
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from electra_tf.text.vocabulary import SPECIAL_TOKENS, describe_other_tokens
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import loads_json, read_json, read_switch, to_json, write_atomically
from electra_tf.util.paths import AnyPath, as_path

HUGGINGFACE_FILE = "tokenizer_config.json"
DESCRIPTION_SUFFIX = ".tokenizer.json"
TOKENIZER_SETTINGS = ("do_lower_case", "strip_accents")
# Share of entries that normalized text cannot have, above which there is a warning:
# vocabularies of lowercased text have none, KoELECTRA's cased one has 1.2 %.
_MAX_LOST = 0.005
# Share of unknown words above which there is a warning: text in the language of its vocabulary
# has far fewer.
MAX_UNKNOWN = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerDescription:
    """What makes ids comparable: the vocabulary, and how text is split and normalized.

    Attributes:
        vocab_sha256: hexadecimal digest of the vocabulary file.
        do_lower_case: whether text is lowercased.
        strip_accents: whether accents are stripped from it, too; false without lowercasing.
        tokenize_chinese_chars: whether every CJK ideograph is a word; always true here.
        special_tokens: special tokens of the vocabulary.
    """

    vocab_sha256: str
    do_lower_case: bool = True
    strip_accents: bool = True
    tokenize_chinese_chars: bool = True
    special_tokens: tuple[str, ...] = SPECIAL_TOKENS

    def __post_init__(self) -> None:
        # Accents are only stripped from lowercased text.
        object.__setattr__(self, "strip_accents", self.do_lower_case and self.strip_accents)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return {**dataclasses.asdict(self), "special_tokens": list(self.special_tokens)}

    @classmethod
    def from_dict(cls, content: Any, where: str) -> "TokenizerDescription":
        """Returns the description of `to_dict`.

        Raises:
            UserError: it is not one, or no tokenizer here is like that; the message starts
                with `where`.
        """
        types = {"vocab_sha256": str, "special_tokens": list}
        names = [field.name for field in dataclasses.fields(cls)]
        if (
            not isinstance(content, dict)
            or sorted(content) != sorted(names)
            or any(not isinstance(content[name], types.get(name, bool)) for name in names)
        ):
            raise UserError(f"{where} does not describe a tokenizer: {', '.join(names)}")
        description = cls(**{**content, "special_tokens": tuple(content["special_tokens"])})
        ours = cls(vocab_sha256="")
        for name in ("tokenize_chinese_chars", "special_tokens"):
            if getattr(description, name) != getattr(ours, name):
                raise UserError(
                    f"{where}: {name} is {content[name]}; only "
                    f"{ours.to_dict()[name]} is supported"
                )
        return description

    def difference(self, other: "TokenizerDescription") -> str | None:
        """Returns the first difference, such as `strip_accents is true, not false`."""
        ours, theirs = self.to_dict(), other.to_dict()
        if ours["vocab_sha256"] != theirs["vocab_sha256"]:
            return "the vocabularies differ"
        for name, value in ours.items():
            if value != theirs[name]:
                return f"{name} is {json.dumps(value)}, not {json.dumps(theirs[name])}"
        return None


def description_file(vocab_file: str | os.PathLike) -> AnyPath:
    """Returns the path of a vocabulary's description."""
    path = as_path(vocab_file)
    return path.with_name(path.stem + DESCRIPTION_SUFFIX)


def hash_vocabulary(vocab_file: str | os.PathLike) -> str | None:
    """Returns the digest of a vocabulary file; None if it cannot be read."""
    try:
        return hashlib.sha256(as_path(vocab_file).read_bytes()).hexdigest()
    except OSError:
        return None


def write_tokenizer_description(
    vocab_file: str | os.PathLike, description: TokenizerDescription
) -> None:
    """Writes the description beside the vocabulary."""
    write_atomically(description_file(vocab_file), to_json(description.to_dict()))


def load_tokenizer_description(vocab_file: str | os.PathLike) -> TokenizerDescription | None:
    """Reads the description beside a vocabulary; None if there is none.

    Raises:
        UserError: it is damaged, or describes another vocabulary.
    """
    path = description_file(vocab_file)
    try:
        content = loads_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error
    description = TokenizerDescription.from_dict(content, str(path))
    actual = hash_vocabulary(vocab_file)
    if actual is not None and actual != description.vocab_sha256:
        raise UserError(
            f"{path} does not describe {vocab_file}, which has been replaced: restore the "
            "vocabulary, or delete the description to use the new one without it"
        )
    return description


def tokenizer_settings(
    given: Mapping[str, Any],
    vocab_file: str | os.PathLike,
    *,
    model_vocab_file: str | os.PathLike | None = None,
    flags: Mapping[str, str] | None = None,
    records: TokenizerDescription | None = None,
) -> dict[str, bool]:
    """Returns `do_lower_case` and `strip_accents`.

    They are as described, else as given, else those of the records, else true.

    Args:
        given: settings from flags, or from a checkpoint; missing or None if not given.
        vocab_file: vocabulary to use (--vocab_file).
        model_vocab_file: vocabulary in the folder of a pre-trained model, if there is one.
        flags: how to name the settings in errors; by default, as flags.
        records: the tokenizer that pre-training records were built with, if that is known.

    Raises:
        UserError: the vocabulary is not that of the model, or a setting contradicts a
            description.
    """
    flags = {name: f"--{name}" for name in TOKENIZER_SETTINGS} | dict(flags or {})
    described = None
    if model_vocab_file is not None:
        described = load_tokenizer_description(model_vocab_file)
        actual = hash_vocabulary(vocab_file)
        if described and actual and actual != described.vocab_sha256:
            raise UserError(
                f"--vocab_file={vocab_file} is not the model's vocabulary, {model_vocab_file}"
            )
        if not described:
            _warn_of_other_tokens(vocab_file, model_vocab_file)
    source = description_file(model_vocab_file if described else vocab_file)
    described = described or load_tokenizer_description(vocab_file)
    if described is None:
        values = {name: getattr(records, name, True) for name in TOKENIZER_SETTINGS}
        values |= {n: given[n] for n in TOKENIZER_SETTINGS if given.get(n) is not None}
        if _warn_of_huggingface_settings(vocab_file, values, flags):
            return values
        # Without lowercasing, nothing is lost.
        assumed = [
            n
            for n in TOKENIZER_SETTINGS
            if given.get(n) is None and values[n] and values["do_lower_case"]
        ]
        _warn_of_lost_entries(vocab_file, assumed, flags)
        return values
    values = {}
    for name in TOKENIZER_SETTINGS:
        expected = getattr(described, name)
        # Stripping accents has no effect without lowercasing.
        counts = name != "strip_accents" or described.do_lower_case
        if given.get(name) is not None and given[name] != expected and counts:
            raise UserError(
                f"{flags[name]} is {json.dumps(given[name])}, but {source} says that {name} is "
                f"{json.dumps(expected)}: omit the flag, or use a vocabulary and data built "
                "with that setting"
            )
        values[name] = expected
    return values


def warn_of_kept_accents(flag: str) -> None:
    """Warns of a given `flag` of `strip_accents`, where text is not lowercased."""
    warn_once(
        f"{flag} has no effect with --do_lower_case=false: accents are only stripped from "
        "lowercased text"
    )


def check_recorded_vocabulary(
    saved: Mapping[str, Any], vocab_file: str | os.PathLike, model: str
) -> None:
    """Raises UserError if a model that has lost its vocabulary was trained with another one.

    Args:
        saved: settings of the model; with `vocab_file` if its vocabulary is there, and
            `vocabulary`, its digest, if that is recorded.
        vocab_file: vocabulary to use.
        model: path of the model.
    """
    recorded = None if "vocab_file" in saved else saved.get("vocabulary")
    actual = hash_vocabulary(vocab_file)
    if recorded and actual and actual != recorded:
        raise UserError(
            f"--vocab_file={vocab_file} is not the vocabulary of {model}, whose own has been "
            "removed: restore it, or pass a copy of it"
        )


def warn_of_unknown_words(
    where: str, num_unknown: int, num_words: int, vocab_file: str | os.PathLike
) -> None:
    """Warns if a vocabulary does not fit a text.

    It counts words, not tokens: where words are long, as in Thai without spaces, unknown words
    are a small share of the tokens.

    Args:
        where: which text.
        num_unknown: number of its words that are [UNK].
        num_words: number of all its words, see `Vocabulary.count_words`.
        vocab_file: the vocabulary.
    """
    if num_unknown > MAX_UNKNOWN * num_words:
        warn_once(
            f"{num_unknown / num_words:.1%} of the words of {where} are unknown ([UNK]): "
            f"check that {vocab_file} fits the language and the casing of the text"
        )


def _warn_of_other_tokens(
    vocab_file: str | os.PathLike, model_vocab_file: str | os.PathLike
) -> None:
    """Warns if tokens get the embeddings that a model has for others."""
    try:
        given, model = (as_path(each).read_bytes() for each in (vocab_file, model_vocab_file))
    except OSError:
        return  # reported where it is loaded
    if other := describe_other_tokens(given, model):
        warn_once(
            f"--vocab_file={vocab_file} is not the model's vocabulary, {model_vocab_file}: "
            f"{other}; these tokens get the embeddings of other tokens"
        )


def huggingface_settings(vocab_file: str | os.PathLike) -> dict[str, bool]:
    """Returns the settings of the Hugging Face tokenizer whose vocabulary a file is.

    Returns:
        Those that the `tokenizer_config.json` beside it has, or that follow from them.

    Raises:
        UserError: that file cannot be read.
    """
    path = as_path(vocab_file).with_name(HUGGINGFACE_FILE)
    content = read_json(path)
    if all(content.get(name) is None for name in TOKENIZER_SETTINGS):
        return {}
    lower = read_switch(content, "do_lower_case", True, str(path))
    # By default, accents are stripped from lowercased text; without lowercasing, never here.
    strip = read_switch(content, "strip_accents", lower, str(path))
    return {"do_lower_case": lower, "strip_accents": lower and strip}


def _warn_of_huggingface_settings(
    vocab_file: str | os.PathLike, values: Mapping[str, bool], flags: Mapping[str, str]
) -> bool:
    """Warns of settings that differ from the vocabulary's tokenizer; returns whether it did."""
    for name, expected in huggingface_settings(vocab_file).items():
        if values[name] != expected and (name != "strip_accents" or values["do_lower_case"]):
            warn_once(
                f"{flags[name]} is {json.dumps(values[name])}, but {HUGGINGFACE_FILE} beside "
                f"{vocab_file} says that {name} is {json.dumps(expected)}: text gets other "
                f"tokens than its model was trained on. Pass {flags[name]}="
                f"{json.dumps(expected)}"
            )
            return True
    return False


def _warn_of_lost_entries(
    vocab_file: str | os.PathLike, assumed: Collection[str], flags: Mapping[str, str]
) -> None:
    """Warns if many entries cannot occur in text that is lowercased or stripped by default.

    Args:
        vocab_file: the vocabulary.
        assumed: settings that have their default.
        flags: how to name the settings.
    """
    try:
        lines = as_path(vocab_file).read_bytes().decode("utf-8", "replace").split("\n")
    except OSError:
        return  # reported where it is loaded
    entries = [line.strip() for line in lines]
    entries = [each for each in entries if each and not (each[0] == "[" and each[-1] == "]")]
    for name, normalized, has, effect, made_of in (
        ("do_lower_case", str.lower, "capitals", "text is lowercased", "is cased"),
        (
            "strip_accents",
            _without_accents,
            "accents, vowel signs or composed syllables",
            "accents are stripped from text",
            "has been made of text with them",
        ),
    ):
        lost = [each for each in entries if each != normalized(each)] if name in assumed else []
        if len(lost) > _MAX_LOST * len(entries):
            warn_once(
                f"{len(lost):,} of the {len(entries):,} entries of {vocab_file} have {has}, "
                f"such as {lost[-1]!r}, but {effect}: pass {flags[name]}=false if the "
                f"vocabulary {made_of}, else {flags[name]}=true"
            )
            return


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn")
