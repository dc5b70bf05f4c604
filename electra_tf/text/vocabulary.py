"""WordPiece vocabulary files: one token per line; its id is the line number, from 0."""

import dataclasses
import functools
import hashlib
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.paths import as_path

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
DEFAULT_FLAG = "--vocab-file"
# Name of the vocabulary file in data folders and in model folders.
VOCAB_FILE = "vocab.txt"
MODEL_FLAG = "--model_dir"
# Stands in for the token of an embedding row that has none.
UNUSED_TOKEN = "[unused_row_{}]"
# Prefix of the pieces of a word after the first.
CONTINUATION = "##"
# Tokens that are not used in training; users replace them by words of their own.
_UNUSED = re.compile(r"\[unused.*\]")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A WordPiece vocabulary.

    Attributes:
        tokens: token strings in the order of their ids; `##` marks continuations.
        ids: token to id.
        sha256: hexadecimal digest of the file's bytes.
        path: the file that was read.
    """

    tokens: tuple[str, ...]
    ids: Mapping[str, int] = dataclasses.field(repr=False)
    sha256: str
    path: pathlib.Path

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def num_tokens(self) -> int:
        """Number of tokens, without those added for embeddings that have none."""
        added = (token == UNUSED_TOKEN.format(row) for row, token in enumerate(self.tokens))
        return self.size - sum(added)

    @property
    def pad_id(self) -> int:
        """Id of [PAD]. Records are padded with 0 and `input_mask` 0 regardless of it."""
        return self.ids[PAD]

    @property
    def unk_id(self) -> int:
        """Id of [UNK]."""
        return self.ids[UNK]

    @property
    def cls_id(self) -> int:
        """Id of [CLS]."""
        return self.ids[CLS]

    @property
    def sep_id(self) -> int:
        """Id of [SEP]."""
        return self.ids[SEP]

    @property
    def mask_id(self) -> int:
        """Id of [MASK]."""
        return self.ids[MASK]

    def count_words(self, ids: Sequence[int]) -> int:
        """Returns the number of words in token ids; [CLS], [SEP] and [PAD] do not count."""
        return int(np.count_nonzero(self.begins_word[np.asarray(ids, np.int64)]))

    @functools.cached_property
    def begins_word(self) -> np.ndarray:
        """Whether a token begins a word, bool [size]; not [CLS], [SEP] and [PAD]."""
        return np.array(
            [
                not token.startswith(CONTINUATION) and token not in (PAD, CLS, SEP)
                for token in self.tokens
            ]
        )


def load_vocabulary(path: str | pathlib.Path, flag: str = DEFAULT_FLAG) -> Vocabulary:
    """Reads a vocabulary file.

    As in the authors' reader, only LF ends a line, and whitespace around a token is
    stripped.

    Args:
        path: file with one token per line, UTF-8.
        flag: flag to name in errors.

    Raises:
        UserError: the file is missing or not UTF-8, has an empty line or a duplicate, or
            lacks one of `SPECIAL_TOKENS`.
    """
    path = as_path(path)
    where = f"Vocabulary file {path} ({flag})"
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        hint = ""
        if path.with_name("tokenizer.json").exists():  # as transformers 5 saves it
            hint = (
                ": it is inside tokenizer.json, from which convert_checkpoint.py "
                "--to_format=electra_tf writes a vocab.txt"
            )
        raise UserError(f"{where} does not exist{hint}") from None
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    return parse_vocabulary(content, where, path)


def load_model_vocabulary(
    path: str | pathlib.Path, vocab_size: int, flag: str = DEFAULT_FLAG
) -> Vocabulary:
    """Reads the vocabulary of a model, and adds unused tokens for embeddings without a token.

    The authors' code, too, accepts fewer tokens than embeddings, whose number may have been
    rounded up.

    Args:
        path, flag: as in `load_vocabulary`. Programs that take the vocabulary of
            `MODEL_FLAG` have no `--vocab_size`.
        vocab_size: number of embeddings.

    Raises:
        UserError: `load_vocabulary` raises it, or there are more tokens than embeddings.
    """
    vocabulary = load_vocabulary(path, flag)
    missing = range(vocabulary.size, vocab_size)
    has_size_flag = flag != MODEL_FLAG
    if vocabulary.size > vocab_size and has_size_flag:
        raise UserError(
            f"--vocab_size is {vocab_size}, but {path} has {vocabulary.size} entries: pass "
            f"--vocab_size={vocabulary.size}, or the vocabulary of the model"
        )
    if vocabulary.size > vocab_size:
        raise UserError(
            f"{flag}: the model has {vocab_size} embeddings, but {path} has {vocabulary.size} "
            "entries, so it belongs to another model: restore the vocabulary of this one"
        )
    if not missing:
        return vocabulary
    fewer = f"--vocab_size={vocab_size}" if has_size_flag else f"the model's {vocab_size}"
    warn_once(
        f"{path} has {vocabulary.size} entries, fewer than {fewer}: the last {len(missing)} "
        "embeddings have no token"
    )
    unused = {UNUSED_TOKEN.format(row): row for row in missing}
    return dataclasses.replace(
        vocabulary,
        tokens=(*vocabulary.tokens, *unused),
        ids={**vocabulary.ids, **unused},
    )


def parse_vocabulary(content: bytes, where: str, path: pathlib.Path) -> Vocabulary:
    """Returns the vocabulary in the bytes of a file.

    Args:
        content: the bytes.
        where: description of their source, for messages.
        path: the file.

    Raises:
        UserError: the vocabulary is invalid; see `load_vocabulary`.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not UTF-8: invalid byte at offset {error.start}") from None
    tokens = tuple(line.strip() for line in text.removesuffix("\n").split("\n"))
    ids: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if not token:
            raise UserError(
                f"{where}: line {index + 1} is empty; every line must hold one token"
            )
        if token in ids:
            raise UserError(
                f"{where}: token {token!r} is on line {ids[token] + 1} and again on line "
                f"{index + 1}; tokens must be unique"
            )
        ids[token] = index
    missing = [token for token in SPECIAL_TOKENS if token not in ids]
    if missing and tokens[0].startswith("\ufeff"):
        raise UserError(
            f"{where} starts with a byte order mark (U+FEFF), which becomes part of its first "
            "token: save it as UTF-8 without one"
        )
    if missing:
        raise UserError(
            f"{where} lacks the special token{'s'[: len(missing) > 1]} {', '.join(missing)}; "
            f"it must contain {', '.join(SPECIAL_TOKENS)}, each on its own line"
        )
    return Vocabulary(tokens, ids, hashlib.sha256(content).hexdigest(), path)


def plain_vocabulary(content: bytes) -> bytes:
    """Returns a vocabulary file for programs that do not strip the whitespace around tokens.

    Args:
        content: a file that `load_vocabulary` accepts.
    """
    tokens = content.decode().removesuffix("\n").split("\n")
    return "".join(f"{token.strip()}\n" for token in tokens).encode()


def describe_other_tokens(given: bytes, model: bytes) -> str | None:
    """Returns how a vocabulary file differs from a model's; None if it does not.

    Lines that only one of them has, and unused tokens of the model, are ignored.
    """
    lists = [content.decode("utf-8", "replace").split("\n") for content in (given, model)]
    pairs = [(ours.strip(), theirs.strip()) for ours, theirs in zip(*lists, strict=False)]
    shared = [(line, *pair) for line, pair in enumerate(pairs, start=1) if all(pair)]
    other = [each for each in shared if each[1] != each[2] and not _UNUSED.fullmatch(each[2])]
    if not other:
        return None
    line, ours, theirs = other[0]
    return (
        f"{len(other):,} of {len(shared):,} tokens, such as {ours!r} instead of {theirs!r} on "
        f"line {line}"
    )
