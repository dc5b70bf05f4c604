"""Serving of tagging, in the graph."""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.text.text_inputs import EncoderInputs, frame_rows
from finetune.config.task_kinds import SPAN
from finetune.model import FinetuningModel
from finetune.tasks.servable import TaskServable
from finetune.tasks.tagging.spans import BIO, OUTSIDE, span_tags, tag_spans
from finetune.tasks.tagging.task import TaggingTask

# Segment of all tokens, including [CLS] and [SEP], as in training.
_SEGMENT = 1
# Whitespace as in Python: Unicode's separators, and these control characters.
_WHITESPACE = r"[\pZ\x09-\x0d\x1c-\x1f\x{85}]"


class TaggingServable(TaskServable[TaggingTask]):
    """Tags the words of `text`, which are separated by whitespace.

    Returns `words` and `tags` string and `scores` float32 (softmax of the tag)
    [batch, words], padded with "" and 0, and `num_words` int32 [batch]. As in training, a
    sentence is truncated after the last word that fits; further words have the tag "" and
    the score 0. Tags of spans are BIO.

    The signature "tokens" returns the head's tag (BIOES for spans) for every token; the tag of
    a word is at its first piece.
    """

    def __init__(self, model: FinetuningModel, task: TaggingTask, max_seq_length: int) -> None:
        super().__init__(model, task, max_seq_length)
        self._bio_tags = _bio_tags(task.labels) if task.level == SPAN else None

    @property
    def metadata(self) -> dict:
        return {**super().metadata, "segment_id": _SEGMENT}

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns `scores` float32 [batch, seq, tags]: the softmax at every token."""
        positions = tf.range(tf.shape(inputs.input_ids)[1])
        positions = tf.broadcast_to(positions, tf.shape(inputs.input_ids))
        return {"scores": self._scores(inputs, positions)}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        scores = self.predict(inputs)["scores"]
        tags = tf.gather(tf.constant(self.task.labels), tf.argmax(scores, axis=-1))
        is_token = inputs.input_mask > 0
        return self._with_tokens(
            inputs,
            {
                "tags": tf.where(is_token, tags, ""),
                "scores": tf.where(is_token, tf.reduce_max(scores, axis=-1), 0.0),
            },
        )

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        words = split_at_whitespace(texts["text"])  # (batch, words)
        inputs, positions = self._word_inputs(words)
        scores = self._scores(inputs, positions.to_tensor())
        labels = tf.argmax(scores, axis=-1, output_type=tf.int32)  # (batch, seen words)
        seen = tf.sequence_mask(positions.row_lengths(), tf.shape(labels)[1])
        padded_words = words.to_tensor()
        missing = [[0, 0], [0, tf.shape(padded_words)[1] - tf.shape(labels)[1]]]
        return {
            "words": padded_words,
            "tags": tf.pad(tf.where(seen, self._tags(labels), ""), missing, constant_values=""),
            "scores": tf.pad(tf.where(seen, tf.reduce_max(scores, axis=-1), 0.0), missing),
            "num_words": tf.cast(words.row_lengths(), tf.int32),
        }

    def _scores(self, inputs: EncoderInputs, positions: tf.Tensor) -> tf.Tensor:
        name = self.task.name
        features = {
            f"{name}_labeled_positions": positions,
            f"{name}_labels": tf.zeros_like(positions),
            f"{name}_labels_mask": tf.zeros_like(positions, tf.float32),
        }
        outputs = self._head_outputs(inputs, features)
        return tf.nn.softmax(outputs["logits"])

    def _word_inputs(self, words: tf.RaggedTensor) -> tuple[EncoderInputs, tf.RaggedTensor]:
        """Returns inputs, and the position of the first piece of each word that fits."""
        vocabulary = self.vocabulary
        pieces = self.tokenizer.tokenize(words.values)  # (all words, pieces)
        # A word without visible characters is [UNK], as in training.
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(is_empty)], vocabulary.unk_id), is_empty, validate=False
        )
        pieces = words.with_values(tf.concat([pieces, unknown], axis=1))
        lengths = words.with_values(tf.cast(pieces.values.row_lengths(), tf.int32))
        ends = _running_sums(lengths)
        # Between [CLS] and [SEP]; the words end before the first one that does not fit.
        fits = ends.with_values(ends.values + NUM_SPECIAL[1] <= self.max_seq_length)
        kept = tf.ragged.boolean_mask(pieces, fits)
        starts = tf.ragged.boolean_mask(ends - lengths + 1, fits)
        return frame_rows(vocabulary, kept.merge_dims(1, 2), segment=_SEGMENT), starts

    def _tags(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns the tags of label ids [batch, words]."""
        if self._bio_tags is None:
            return tf.gather(tf.constant(self.task.labels), labels)
        outside = len(self.task.labels)
        before = tf.pad(labels[:, :-1], [[0, 0], [1, 0]], constant_values=outside)
        before = before[:, : tf.shape(labels)[1]]
        return tf.gather_nd(tf.constant(self._bio_tags), tf.stack([before, labels], axis=-1))


def _bio_tags(labels: tuple[str, ...]) -> list[list[str]]:
    """Returns a table of BIO tags by the labels of the preceding word and of the word.

    The last row is for the first word of a sentence. Whether a tag starts a span does not
    depend on other words (see `finetune.tasks.tagging.spans.tag_spans`).
    """
    return [
        [span_tags(tag_spans([before, label]), 2, BIO)[1] for label in labels]
        for before in (*labels, OUTSIDE)
    ]


def _running_sums(rows: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the inclusive cumulative sums of each row, int32."""
    sums = tf.concat([[0], tf.cumsum(rows.values)], axis=0)
    before_row = tf.gather(sums, rows.row_starts())
    return rows.with_values(sums[1:] - tf.repeat(before_row, rows.row_lengths()))


def split_at_whitespace(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the words of texts, string [batch, words], as `str.split` does in the files.

    TensorFlow alone would split at ASCII whitespace.
    """
    return tf.strings.split(tf.strings.regex_replace(texts, _WHITESPACE, " "))
