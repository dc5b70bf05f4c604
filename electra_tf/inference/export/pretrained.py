"""Servables of pre-trained models: discriminator, generator, embeddings."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from electra_tf import model_builder
from electra_tf.config.distribution import on_one_device
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.config.saved_config import is_converted, is_pretrained
from electra_tf.config.trained_positions import warn_of_untrained_positions
from electra_tf.inference.export.config import (
    GENERATOR,
    ExportConfig,
    choose_component,
    select_fields,
    serving_length,
    warn_of_assumed_length,
)
from electra_tf.inference.export.servable import (
    Servable,
    ServableLoader,
    ServedOutputs,
    Source,
)
from electra_tf.model.encoder import Encoder
from electra_tf.model.positions import gather_positions
from electra_tf.objectives.electra_15 import warn_of_unmasked_tokens
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.text_inputs import EncoderInputs, single_text_inputs, tokenize_with_masks
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import MODEL_FLAG, load_model_vocabulary
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.errors import UserError

DISCRIMINATOR, EMBEDDINGS = "discriminator", "embeddings"
COMPONENTS = (DISCRIMINATOR, GENERATOR, EMBEDDINGS)


class _SingleText(Servable):
    """Takes one text per row."""

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        ids = self.tokenizer.tokenize(texts["text"])
        return self.answer_tokens(single_text_inputs(self.vocabulary, ids, self.max_seq_length))

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        return self._with_tokens(inputs, self.predict(inputs))


class DiscriminatorServable(_SingleText):
    """Returns `replaced_probability` float32 [batch, seq] of every token, 0 for padding.

    Raises:
        UserError: the model has no discriminator.
    """

    def __init__(
        self, model: PretrainingModel, tokenizer: Tokenizer, max_seq_length: int
    ) -> None:
        if not model.has_discriminator:
            raise UserError(
                f"This model was pre-trained with --objective={model.config.objective} and has "
                f"no discriminator: {_advise_others(model)}"
            )
        super().__init__(tokenizer, max_seq_length, model.electra)
        self._model = model

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        probabilities = tf.sigmoid(self._model.replaced_logits(*inputs))
        return {"replaced_probability": probabilities * tf.cast(inputs.input_mask, tf.float32)}


class GeneratorServable(_SingleText):
    """Predicts the tokens at every "[MASK]" of a text.

    Returns `candidates` string and `probabilities` float32 [batch, masks, top_k], most likely
    first; `mask_positions` int32 [batch, masks] within `tokens`; and `num_masks` int32
    [batch]. Rows with fewer masks are padded with "" and 0.

    Args:
        top_k: number of candidates per mask.

    Raises:
        UserError: the model has no generator.
    """

    def __init__(
        self, model: PretrainingModel, tokenizer: Tokenizer, max_seq_length: int, top_k: int
    ) -> None:
        if model.generator is None:
            raise UserError(
                "This model was pre-trained with "
                f"--generator_type={model.config.generator_type}, which cannot fill in masks: "
                f"{_advise_others(model)}"
            )
        super().__init__(tokenizer, max_seq_length, model.generator)
        self._model = model
        self._top_k = min(top_k, self.vocabulary.size)

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns `candidate_ids` int32 and `probabilities`, [batch, seq, top_k]."""
        sequence = self._model.generator(*inputs).sequence_output
        ids, probabilities = self._candidates(sequence)
        return {"candidate_ids": ids, "probabilities": probabilities}

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        ids = tokenize_with_masks(self.tokenizer, texts["text"])
        return self.answer_tokens(single_text_inputs(self.vocabulary, ids, self.max_seq_length))

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        sequence = self._model.generator(*inputs).sequence_output
        is_mask = (inputs.input_ids == self.vocabulary.mask_id) & (inputs.input_mask > 0)
        found = tf.ragged.boolean_mask(
            tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask)), is_mask
        )
        positions = found.to_tensor()  # (batch, masks)
        used = tf.ones_like(found).to_tensor() > 0
        # Only the masks go through the output layer, because the vocabulary is large.
        ids, probabilities = self._candidates(gather_positions(sequence, positions))
        candidates = tf.gather(tf.constant(self.vocabulary.tokens), ids)
        return self._with_tokens(
            inputs,
            {
                "candidates": tf.where(used[..., None], candidates, ""),
                "probabilities": tf.where(used[..., None], probabilities, 0.0),
                "mask_positions": positions,
                "num_masks": tf.cast(found.row_lengths(), tf.int32),
            },
        )

    def _candidates(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ids and probabilities [batch, n, top_k] for states [batch, n, hidden]."""
        logits = self._model.generator_predictions(
            states, self._model.generator.embeddings.word_embeddings
        )
        best = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), self._top_k)
        return best.indices, best.values


class EmbeddingsServable(_SingleText):
    """Embeddings of texts and tokens.

    Returns `token_embeddings` float32 [batch, seq, hidden], the encoder's output (0 for
    padding), and `sentence_embedding` [batch, hidden], their mean over all tokens including
    [CLS] and [SEP] (mean pooling, Reimers and Gurevych 2019).
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, max_seq_length: int) -> None:
        super().__init__(tokenizer, max_seq_length, encoder)
        self._encoder = encoder

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        # LiteRT has no new axis at the end of a slice.
        mask = tf.expand_dims(tf.cast(inputs.input_mask, tf.float32), -1)
        tokens = tf.cast(self._encoder(*inputs).sequence_output, tf.float32) * mask
        counts = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
        return {
            "sentence_embedding": tf.reduce_sum(tokens, axis=1) / counts,
            "token_embeddings": tokens,
        }


def _advise_others(model: PretrainingModel) -> str:
    """Returns advice on what to export from a model that lacks a component."""
    parts = {DISCRIMINATOR: model.has_discriminator, GENERATOR: model.generator is not None}
    names = [*(name for name, is_there in parts.items() if is_there), EMBEDDINGS]
    return f"export --component={' or '.join(names)}"


def load_pretrained(
    config: ExportConfig, saved: Mapping[str, Any], print_fn: Callable[[str], None]
) -> Servable:
    """Returns a component of a pre-trained model; see `ServableLoader.load`."""
    component = choose_component(config.component, COMPONENTS, config.model_dir)
    run = on_one_device(PretrainingConfig(**select_fields(PretrainingConfig, saved)))
    vocabulary = load_model_vocabulary(run.vocab_file, run.vocab_size, MODEL_FLAG)
    model, step, checkpoint = model_builder.load_model(run, vocabulary, create_strategy(run))
    print_fn(f"Model:   {component} of {checkpoint}, step {step}, {run.precision}")
    if component != GENERATOR and not model.has_trained_electra:
        raise UserError(
            f"--objective={run.objective} has trained only the generator until step {step}, "
            f"so {component} has random weights: continue the run, or export "
            f"--component={GENERATOR}"
        )
    tokenizer = Tokenizer(vocabulary, run.do_lower_case, run.strip_accents)
    positions = discriminator_config(run).max_position_embeddings
    length = serving_length(config.max_seq_length, run.max_seq_length, positions)
    if is_converted(saved):
        warn_of_assumed_length(config, saved, length, positions)
    warn_of_untrained_positions(saved, length, "--max_seq_length", config.model_dir)
    if component == DISCRIMINATOR:
        model.warn_of_untrained(run, "its answers")
        warn_of_unmasked_tokens(run.objective)
        servable = DiscriminatorServable(model, tokenizer, length)
    elif component == GENERATOR:
        servable = GeneratorServable(model, tokenizer, length, config.top_k)
    else:
        servable = EmbeddingsServable(model.electra, tokenizer, length)
    servable.source = Source(checkpoint, step)
    return servable


PRETRAINED = ServableLoader(describes=is_pretrained, load=load_pretrained)
