"""Interface of an exported model: outputs for ids and for texts."""

import abc
import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.inference.export.config import SAVED_MODEL, ExportConfig
from electra_tf.model.encoder import Encoder
from electra_tf.model.kernels import CastKernels, without_fusion
from electra_tf.text.framing import NUM_SEGMENTS
from electra_tf.text.text_inputs import EncoderInputs, token_strings
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import VOCAB_FILE
from electra_tf.util.errors import UserError

ServedOutputs = dict[str, tf.Tensor]
TEXT_SIGNATURE, TOKENS_SIGNATURE = "serving_default", "tokens"
DESCRIPTION_FILE = "description.json"
# Description of the tokenizer, beside the warm-up requests of a SavedModel.
TOKENIZER_FILE = "tokenizer.json"
ConcreteFunction = tf.types.experimental.ConcreteFunction
# Protocol buffers and FlatBuffers have at most 2 GiB.
_MAX_CONSTANT_BYTES = 2**31 - 1


class Source(NamedTuple):
    """Where exported weights come from: path and step of the checkpoint."""

    checkpoint: str
    step: int


class Servable(abc.ABC):
    """A trained model with its pre- and post-processing.

    Args:
        tokenizer: tokenizer of training.
        max_seq_length: maximum sequence length, in tokens.
        encoder: the model's encoder.

    Attributes:
        num_segments: segment ids of requests are below it. Without an embedding for the second
            segment, its tokens get none, as in training.
    """

    # Names of the texts of a request, and of those with a list of texts per row.
    text_names: tuple[str, ...] = ("text",)
    list_names: tuple[str, ...] = ()
    # Set when the weights are restored.
    source: Source | None = None

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int, encoder: Encoder) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary
        self.max_seq_length = max_seq_length
        self.num_segments = max(encoder.config.type_vocab_size, NUM_SEGMENTS)
        # They are cast to the compute dtype once.
        self._cast_kernels = CastKernels(encoder.linears)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Context in which graphs are traced: kernels are cast once, and XLA is off."""
        with self._cast_kernels, without_fusion():
            yield

    @abc.abstractmethod
    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns numeric outputs, for formats without strings.

        Args:
            inputs: a batch of at most `max_seq_length` tokens per row.
        """

    @abc.abstractmethod
    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns the outputs of the signature "tokens"."""

    @abc.abstractmethod
    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        """Returns the outputs of the signature "serving_default".

        Args:
            texts: string [batch] for each of `text_names`; [batch, n] if it is one of
                `list_names`.
        """

    @property
    def metadata(self) -> dict[str, Any]:
        """Settings for clients of `predict`; JSON-serializable."""
        source = {"source": self.source._asdict()} if self.source else {}
        return {
            **source,
            "max_seq_length": self.max_seq_length,
            "do_lower_case": self.tokenizer.do_lower_case,
            "strip_accents": self.tokenizer.strip_accents,
            "tokenizer": self.tokenizer_description.to_dict(),
        }

    @property
    def tokenizer_description(self) -> TokenizerDescription:
        """Settings of the tokenizer, for clients that tokenize themselves."""
        return TokenizerDescription(
            vocab_sha256=self.vocabulary.sha256,
            do_lower_case=self.tokenizer.do_lower_case,
            strip_accents=self.tokenizer.strip_accents,
        )

    def _with_tokens(self, inputs: EncoderInputs, outputs: ServedOutputs) -> ServedOutputs:
        """Adds the tokens of each row, their ids and number."""
        return {
            "token_ids": inputs.input_ids,
            "tokens": token_strings(self.vocabulary, inputs),
            "num_tokens": tf.reduce_sum(inputs.input_mask, axis=1),
            **outputs,
        }


class ServableLoader(NamedTuple):
    """Loads servables from models of one kind.

    Attributes:
        describes: returns whether the hyperparameters of a `config.json` match such a model.
        load: returns the servable, given the settings of the export, these hyperparameters
            with the paths of the model's folder, and a print function. Raises UserError if
            the model has no such component.
    """

    describes: Callable[[Mapping[str, Any]], bool]
    load: Callable[[ExportConfig, Mapping[str, Any], Callable[[str], None]], Servable]


def trace_predict(servable: Servable) -> ConcreteFunction:
    """Traces `Servable.predict` with named int32 [batch, seq] inputs."""

    def predict(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return servable.predict(EncoderInputs(**features))

    specs = {
        name: tf.TensorSpec([None, None], tf.int32, name) for name in EncoderInputs._fields
    }
    with servable.tracing():
        return tf.function(predict, autograph=False).get_concrete_function(**specs)


def check_constants(function: ConcreteFunction, format_name: str) -> None:
    """Raises UserError if the weights are too large for a file that has them as constants."""
    num_bytes = sum(v.shape.num_elements() * v.dtype.size for v in function.variables)
    if num_bytes > _MAX_CONSTANT_BYTES:
        raise UserError(
            f"--format={format_name} cannot represent a model with weights of "
            f"{num_bytes / 1e9:.1f} GB, only up to {_MAX_CONSTANT_BYTES / 1e9:.1f} GB: use "
            f"--format={SAVED_MODEL} or --format=stablehlo"
        )


def write_description(
    servable: Servable,
    function: ConcreteFunction,
    directory: pathlib.Path,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Writes `vocab.txt`, and `description.json`: settings, inputs, outputs, and `more`."""
    tensors = {
        "inputs": function.structured_input_signature[1],
        "outputs": function.structured_outputs,
    }
    described = {
        kind: {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in specs.items()
        }
        for kind, specs in tensors.items()
    }
    vocabulary = "".join(f"{token}\n" for token in servable.vocabulary.tokens).encode()
    (directory / VOCAB_FILE).write_bytes(vocabulary)
    # The model's own file may have fewer tokens than embeddings, or other line ends.
    digest = hashlib.sha256(vocabulary).hexdigest()
    tokenizer = dataclasses.replace(servable.tokenizer_description, vocab_sha256=digest)
    tokenizer = {"tokenizer": tokenizer.to_dict()}
    content = {**servable.metadata, **tokenizer, **described, **(more or {})}
    content = json.dumps(content, indent=2, ensure_ascii=False)
    (directory / DESCRIPTION_FILE).write_text(content + "\n", encoding="utf-8")
