"""Exported models behind the web demo; reads SavedModels only."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.config import SAVED_MODEL, is_version
from electra_tf.inference.export.saved_model import EXTRA_FOLDER, check_checksums
from electra_tf.inference.export.servable import DESCRIPTION_FILE, TOKENIZER_FILE
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import read_json
from electra_tf.util.plain_paths import plain_path

_NUM_ALTERNATIVES = 5
# Batch size of generator queries; each row masks one token.
_MAX_MASKED_ROWS = 64
# Kind of a task by an output that is unique to it.
_KINDS = {
    "label": "classification",
    "predicted_labels": "multilabel",
    "tags": "tagging",
    "answer": "qa",
    "score": "regression",
    "choice": "multiple_choice",
}
_MIN_CHOICES = 2
# Syllables, which become up to three letters where accents are stripped.
_HANGUL = re.compile("[\uac00-\ud7a3]")
# A further token at the end of a text.
_ONE_MORE = " a"
# Settings of an export that limit how many tokens of a text it reads.
_LENGTHS = ("max_seq_length", "max_query_length")
# The inputs that can be truncated, by kind; for other kinds, all inputs. Contexts are divided
# into windows, and words beyond the limit get no tag.
_TRUNCATED = {"qa": ("question",), "tagging": ()}
# Inputs in the order of the form: that of a loaded SavedModel differs from start to start.
_INPUT_ORDER = ("text", "text_a", "text_b", "question", "context", "choices")
# A number of tokens that exceeds the limit of any model.
_LONGER_THAN_MODELS = 20_000


class ExportedModel:
    """The latest version of an exported model.

    Attributes:
        directory: folder of the version.
        input_names, output_names: names of its texts, and of its outputs.
        list_names: those of `input_names` that take a list of texts.
        tokenizer: its tokenizer; None if it was exported without a description.
        description: settings of the servable; empty for exports of older versions.

    Args:
        export_dir: folder with one subfolder per version.
        flag: flag to name in errors.

    Raises:
        UserError: there is no version, it was not written by `export_saved_model.py`, or a
            file of it is damaged.
    """

    def __init__(self, export_dir: pathlib.Path, flag: str) -> None:
        versions = [path for path in export_dir.glob("*") if is_version(path.name)]
        if not versions:
            raise UserError(
                f"{flag}={export_dir} contains no version (a numbered folder): export a model "
                "there with export_saved_model.py"
            )
        self.directory = max(versions, key=lambda path: int(path.name))
        check_checksums(self.directory)
        if not (self.directory / "saved_model.pb").exists():
            raise UserError(
                f"{flag}: {self.directory} is not a SavedModel, the only supported format: "
                f"export the model with --format={SAVED_MODEL}, in a folder of its own"
            )
        self.tokenizer = _tokenizer_of(self.directory)
        self.description = read_json(str(self.directory / EXTRA_FOLDER / DESCRIPTION_FILE))
        try:
            with plain_path(self.directory) as readable:
                self._model = tf.saved_model.load(readable)
            self._signatures = dict(self._model.signatures)
            specs = self._specs("serving_default")
            self.input_names = tuple(sorted(specs, key=_place))
            self.list_names = tuple(n for n, spec in specs.items() if spec.shape.rank == 2)
            self.output_names = tuple(self._signatures["serving_default"].structured_outputs)
        except Exception as error:  # damaged files raise many classes
            raise UserError(
                f"{flag}: {self.directory} is not a SavedModel with signatures: "
                f"{reason_of(error)}"
            ) from error

    def answer(self, **texts: str | list[str]) -> dict[str, np.ndarray]:
        """Returns the outputs for one row of texts, or lists, without the batch axis."""
        outputs = self._signatures["serving_default"](
            **{name: tf.constant([text]) for name, text in texts.items()}
        )
        return {name: value.numpy()[0] for name, value in outputs.items()}

    def answer_ids(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the outputs for rows of ids without padding, [rows, seq]."""
        ids = tf.constant(ids, tf.int32)
        outputs = self._signatures["tokens"](
            input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=tf.zeros_like(ids)
        )
        return {name: value.numpy() for name, value in outputs.items()}

    def require(self, outputs: tuple[str, ...], flag: str) -> None:
        """Raises UserError unless the model has all of `outputs`."""
        if not set(outputs) <= set(self.output_names):
            raise UserError(
                f"{flag}: {self.directory} has the outputs {', '.join(self.output_names)}; "
                f"expected {', '.join(outputs)}. Is it an export of another component?"
            )

    def _specs(self, signature: str) -> dict[str, tf.TensorSpec]:
        return self._signatures[signature].structured_input_signature[1]


def _place(name: str) -> int:
    """Returns the place of an input in the form."""
    return _INPUT_ORDER.index(name) if name in _INPUT_ORDER else len(_INPUT_ORDER)


class TokenInspector:
    """Probabilities of being replaced, and alternatives, token by token.

    Args:
        discriminator: exported discriminator.
        generator: exported generator, or None.

    Attributes:
        tokenizer: see `ExportedModel`.
        max_tokens: number of tokens that both models read; longer texts are cut.
    """

    def __init__(self, discriminator: ExportedModel, generator: ExportedModel | None) -> None:
        discriminator.require(
            ("tokens", "token_ids", "replaced_probability"), "--discriminator"
        )
        self.tokenizer = discriminator.tokenizer
        self.max_tokens = _num_read(discriminator)
        self._discriminator = discriminator
        self._generator = generator
        if generator is not None:
            generator.require(("candidates", "probabilities"), "--generator")
            _require_same_tokenizer(discriminator, generator)
            self.max_tokens = min(self.max_tokens, _num_read(generator))
            self._mask_id = int(generator.answer(text="[MASK]")["token_ids"][1])

    def inspect(self, text: str) -> list[dict[str, Any]]:
        """Returns "token", "probability" of being replaced and "alternatives" of each token.

        An alternative has "token" and "probability", predicted with only this token masked.
        """
        answer = self._discriminator.answer(text=text)
        end = int(answer["num_tokens"]) - 1
        inner = slice(1, min(end, 1 + self.max_tokens))  # without [CLS] and [SEP]
        found = [
            {"token": token.decode(), "probability": float(probability), "alternatives": []}
            for token, probability in zip(
                answer["tokens"][inner], answer["replaced_probability"][inner], strict=True
            )
        ]
        if self._generator is not None and found:
            ids = answer["token_ids"][[*range(inner.stop), end]]
            for item, alternatives in zip(found, self._alternatives(ids), strict=True):
                item["alternatives"] = alternatives
        return found

    def _alternatives(self, ids: np.ndarray) -> list[list[dict[str, Any]]]:
        """Returns the most likely tokens for each position of `[CLS] ids [SEP]`."""
        rows = np.repeat(ids[None], len(ids) - 2, axis=0)
        rows[np.arange(len(rows)), np.arange(1, len(ids) - 1)] = self._mask_id
        found = []
        for start in range(0, len(rows), _MAX_MASKED_ROWS):
            part = rows[start : start + _MAX_MASKED_ROWS]
            answer = self._generator.answer_ids(part)
            # The text itself may contain masks; select the one inserted in this row.
            for i, positions in enumerate(answer["mask_positions"]):
                slot = list(positions).index(start + i + 1)
                pairs = zip(
                    answer["candidates"][i, slot, :_NUM_ALTERNATIVES],
                    answer["probabilities"][i, slot, :_NUM_ALTERNATIVES],
                    strict=True,
                )
                found.append([{"token": t.decode(), "probability": float(p)} for t, p in pairs])
        return found


def _num_read(model: ExportedModel) -> int:
    """Returns the number of tokens that a model reads of a text."""
    long = model.answer(text="a " * _LONGER_THAN_MODELS)
    return int(long["num_tokens"]) - NUM_SPECIAL[1]


class TaskModel:
    """A fine-tuned task with JSON answers.

    Attributes:
        tokenizer: see `ExportedModel`.
        kind: kind of the task, such as "classification".
        input_names: names of its input texts.
        list_names: those of them with a text per line.
    """

    def __init__(self, model: ExportedModel, flag: str) -> None:
        self._model = model
        self.tokenizer = model.tokenizer
        self.input_names, self.list_names = model.input_names, model.list_names
        kinds = [kind for output, kind in _KINDS.items() if output in model.output_names]
        if not kinds:
            raise UserError(f"{flag}: {model.directory} is not an export of a fine-tuned task")
        self.kind = kinds[0]
        description = model.description
        self._truncated = [
            name
            for name in self.input_names
            if name not in self.list_names and name in _TRUNCATED.get(self.kind, (name,))
        ]
        # Texts that are divided into windows are read as a whole.
        if description.get("long_text") == "windows":
            self._truncated = []
        limits = [description[name] for name in _LENGTHS if name in description]
        self._limit = min(limits) - NUM_SPECIAL[2] if limits else None

    def answer(self, **texts: str) -> dict[str, Any]:
        """Returns "kind", the outputs for one row of texts, and its lists.

        "full" lists the texts that reach or exceed the number of tokens that the model reads.

        Raises:
            UserError: a list has fewer than two lines.
        """
        lists = {name: _lines(name, texts[name]) for name in self.list_names}
        outputs = self._model.answer(**texts | lists)
        answer = {name: _to_json(value) for name, value in outputs.items()}
        full = self._full_texts(texts, lists, outputs)
        return {"kind": self.kind, **answer, **lists, **({"full": full} if full else {})}

    def _full_texts(
        self,
        texts: Mapping[str, str],
        lists: Mapping[str, list[str]],
        outputs: Mapping[str, np.ndarray],
    ) -> list[str]:
        """Returns the names of the texts that reach or exceed the tokens that are read."""
        most = sum(_most_tokens(text) for text in texts.values())
        if self._limit is None or most < self._limit:
            return []
        found = []
        for name in self._truncated:
            longer = self._model.answer(**{**texts, **lists, name: texts[name] + _ONE_MORE})
            if all(np.array_equal(longer[key], value) for key, value in outputs.items()):
                found.append(name)
        return found


def _most_tokens(text: str) -> int:
    """Returns the maximum number of tokens of a text: one per character, without spaces."""
    return sum(map(len, text.split())) + 2 * len(_HANGUL.findall(text))


def _lines(name: str, text: str) -> list[str]:
    # Not the other line separators of Unicode, which a choice may contain.
    lines = [line.strip() for line in re.split(r"\r?\n", text) if line.strip()]
    if len(lines) < _MIN_CHOICES:
        raise UserError(
            f"{name!r} must have at least {_MIN_CHOICES} lines, one per choice, not "
            f"{len(lines)}"
        )
    return lines


def _tokenizer_of(directory: pathlib.Path) -> TokenizerDescription | None:
    path = directory / EXTRA_FOLDER / TOKENIZER_FILE
    content = read_json(str(path))
    return TokenizerDescription.from_dict(content, str(path)) if content else None


def _require_same_tokenizer(discriminator: ExportedModel, generator: ExportedModel) -> None:
    if discriminator.tokenizer is None or generator.tokenizer is None:
        return
    difference = generator.tokenizer.difference(discriminator.tokenizer)
    if difference:
        raise UserError(
            f"--generator={generator.directory} has a different tokenizer from --discriminator="
            f"{discriminator.directory}: {difference}"
        )


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [_to_json(item) for item in value]
    return value.tolist()
