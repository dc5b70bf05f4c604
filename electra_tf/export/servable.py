"""What an exported model is: how it answers ids, and how it answers texts."""

import abc
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from electra_tf.model.kernels import CastKernels, without_fusion
from electra_tf.text.text_inputs import EncoderInputs, token_strings
from electra_tf.text.tokenizer import Tokenizer

Outputs = dict[str, tf.Tensor]
TEXT_SIGNATURE, TOKENS_SIGNATURE = "serving_default", "tokens"


class Servable(abc.ABC):
    """A trained model and everything between a request and its answer.

    Args:
        tokenizer: the one of training.
        max_seq_length: tokens of a row at most.
        linears: layers whose kernels are cast to the compute dtype once.
    """

    # Names of the texts that a request holds.
    text_names: tuple[str, ...] = ("text",)

    def __init__(
        self, tokenizer: Tokenizer, max_seq_length: int, linears: Iterable[keras.layers.Layer]
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary
        self.max_seq_length = max_seq_length
        self._cast_kernels = CastKernels(linears)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """What graphs of this model are traced in: kernels cast once, and no XLA."""
        with self._cast_kernels, without_fusion():
            yield

    @abc.abstractmethod
    def predict(self, inputs: EncoderInputs) -> Outputs:
        """Returns the numbers that the model puts out, for formats without strings.

        Args:
            inputs: a batch, at most `max_seq_length` long.
        """

    @abc.abstractmethod
    def answer_tokens(self, inputs: EncoderInputs) -> Outputs:
        """Returns what the signature "tokens" answers."""

    @abc.abstractmethod
    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> Outputs:
        """Returns what the signature "serving_default" answers.

        Args:
            texts: string [batch] for each of `text_names`.
        """

    @property
    def metadata(self) -> dict[str, Any]:
        """What a client of `predict` has to know, JSON-serializable."""
        return {
            "max_seq_length": self.max_seq_length,
            "do_lower_case": self.tokenizer.do_lower_case,
            "strip_accents": self.tokenizer.strip_accents,
        }

    def _with_tokens(self, inputs: EncoderInputs, outputs: Outputs) -> Outputs:
        """Adds the tokens of each row, their ids and their number."""
        return {
            "token_ids": inputs.input_ids,
            "tokens": token_strings(self.vocabulary, inputs),
            "num_tokens": tf.reduce_sum(inputs.input_mask, axis=1),
            **outputs,
        }
