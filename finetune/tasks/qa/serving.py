"""Serving of question answering, in the graph: windows, beams and character offsets."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.text.text_inputs import EncoderInputs, frame_rows, truncate_rows
from finetune.model import FinetuningModel
from finetune.tasks.qa.context_pieces import ContextPieces, context_pieces
from finetune.tasks.qa.featurize import LENGTH_WEIGHT
from finetune.tasks.qa.nbest import CERTAINLY_NULL
from finetune.tasks.qa.task import QATask
from finetune.tasks.servable import TaskServable

# Batch size of windows, which bounds the memory of a long context.
_WINDOWS_AT_ONCE = 8
_NOT_A_SPAN = -float("inf")


class _Windows(NamedTuple):
    """The windows of a batch of contexts.

    `rows` int32 [batch + 1] is the first window of each example; `first_token` int32
    [windows] is the position of the first piece of a window, `first_piece` its index in the
    context and `length` the number of pieces; `is_max_context` bool [windows, pieces].
    """

    inputs: EncoderInputs
    rows: tf.Tensor
    first_token: tf.Tensor
    first_piece: tf.Tensor
    length: tf.Tensor
    is_max_context: tf.Tensor


class _Spans(NamedTuple):
    """Spans [rows, spans]: int32 positions, and float32 scores, -inf for invalid spans."""

    start: tf.Tensor
    end: tf.Tensor
    score: tf.Tensor


class QAServable(TaskServable[QATask]):
    """Answers a `question` about a `context` of any length.

    Long contexts are split into windows as in training. Questions are truncated
    to `max_query_length` pieces, or to fewer if they would fill the windows. Outputs: `answer`
    string [batch], a part of the context; `start` and `end` int32 [batch], in code points, such
    that it is `context[start:end]`; and `score` float32 [batch], the sum of the scores of its
    first and last piece. If questions may be unanswerable, also `null_odds` float32 [batch]:
    above `qa_na_threshold`, the answer is "", and start and end are -1, as for an empty
    context.

    The signature "tokens" takes single windows, `[CLS] question [SEP] context [SEP]` with
    segment ids 0 and 1, and returns positions within them.
    """

    text_names = ("question", "context")

    def __init__(self, model: FinetuningModel, task: QATask, max_seq_length: int) -> None:
        super().__init__(model, task, max_seq_length)
        self._config = task.config
        # In training, a question that leaves no room for its context is an error.
        room = max_seq_length - NUM_SPECIAL[2] - 1
        self._longest_question = min(task.config.max_query_length, room)

    @property
    def metadata(self) -> dict:
        names = set(self.task.kind.serving) - {"max_seq_length", "max_query_length"}
        settings = {name: getattr(self._config, name) for name in sorted(names)}
        settings["max_query_length"] = self._longest_question
        # Without it, `answerable_logit` is 0, and null odds are derived from the other scores.
        settings["answerable_classifier"] = self._config.answerable_classifier
        return {**super().metadata, **settings}

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns the outputs of `finetune.tasks.qa.head.QAHead`."""
        return self._head_outputs(inputs)

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        """Returns `start_position` and `end_position` (inclusive; -1 for none), `score`."""
        outputs = self.predict(inputs)
        in_context = inputs.segment_ids * inputs.input_mask
        spans = self._spans(
            outputs,
            tf.argmax(in_context, axis=1, output_type=tf.int32),
            tf.reduce_sum(in_context, axis=1) - 1,
            tf.cast(tf.ones_like(in_context), tf.bool),
        )
        best = tf.argmax(spans.score, axis=1)
        score = tf.gather(spans.score, best, batch_dims=1)
        found = score > _NOT_A_SPAN
        answer = {
            "start_position": tf.where(found, tf.gather(spans.start, best, batch_dims=1), -1),
            "end_position": tf.where(found, tf.gather(spans.end, best, batch_dims=1), -1),
            "score": tf.where(found, score, 0.0),
        }
        if self.task.v2:
            answer["null_odds"] = self._null_odds(self._null_scores(outputs), answer["score"])
        return self._with_tokens(inputs, answer)

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        pieces = context_pieces(self.tokenizer, texts["context"])
        windows = self._windows(texts["question"], pieces)
        outputs = self._predict_in_parts(windows.inputs)
        spans = self._spans(
            outputs, windows.first_token, windows.length, windows.is_max_context
        )
        window, best, score = _best_of_examples(spans.score, windows.rows)
        found = score > _NOT_A_SPAN
        score = tf.where(found, score, 0.0)
        outcome = {"score": score}
        if self.task.v2:
            null_scores = tf.RaggedTensor.from_row_splits(
                self._null_scores(outputs), windows.rows, validate=False
            )
            is_empty = pieces.splits[1:] == pieces.splits[:-1]
            null_scores = tf.where(is_empty, CERTAINLY_NULL, tf.reduce_min(null_scores, axis=1))
            outcome["null_odds"] = self._null_odds(null_scores, score)
            found &= outcome["null_odds"] <= self._config.qa_na_threshold

        def piece(positions: tf.Tensor) -> tf.Tensor:
            """Returns the piece at the position of the best span, for found answers."""
            within = tf.gather_nd(positions, tf.stack([window, best], axis=1))
            within -= tf.gather(windows.first_token, window)
            return tf.boolean_mask(within + tf.gather(windows.first_piece, window), found)

        places = tf.where(found)
        shape = tf.shape(found, out_type=tf.int64)
        if self.task.is_built_in:
            character_span = pieces.authors_character_span
        else:
            character_span = pieces.character_span
        start, end = character_span(piece(spans.start), piece(spans.end))
        start, end = (tf.scatter_nd(places, part + 1, shape) - 1 for part in (start, end))
        answer = tf.strings.substr(
            pieces.texts, tf.maximum(start, 0), end - start, unit="UTF8_CHAR"
        )
        return {"answer": answer, "start": start, "end": end, **outcome}

    def _windows(self, questions: tf.Tensor, pieces: ContextPieces) -> _Windows:
        """Splits contexts into windows as `QAFeaturizer` does; each has at least one."""
        vocabulary, config = self.vocabulary, self._config
        question = self.tokenizer.tokenize(questions)
        question_length = tf.cast(question.row_lengths(), tf.int32)
        question_length = tf.minimum(question_length, self._longest_question)
        question = truncate_rows(question, question_length)
        room = self.max_seq_length - question_length - NUM_SPECIAL[2]
        step = tf.minimum(room, config.doc_stride)
        count = pieces.splits[1:] - pieces.splits[:-1]
        # The first window that reaches the end of the context is the last one.
        num_windows = tf.maximum((count - room + 2 * step - 1) // step, 1)
        example = tf.repeat(tf.range(tf.shape(count)[0]), num_windows)

        start = tf.ragged.range(num_windows).values * tf.gather(step, example)
        length = tf.minimum(tf.gather(room, example), tf.gather(count, example) - start)
        first_piece = tf.gather(pieces.splits, example) + start
        shown = tf.ragged.range(first_piece, first_piece + length)  # (windows, pieces)
        ids = shown.with_values(tf.gather(pieces.ids, shown.values))
        return _Windows(
            inputs=frame_rows(vocabulary, tf.gather(question, example), ids),
            rows=tf.concat([[0], tf.cumsum(num_windows)], axis=0),
            first_token=tf.gather(question_length, example) + 2,
            first_piece=first_piece,
            length=length,
            is_max_context=_is_max_context(shown, tf.size(pieces.ids)),
        )

    def _predict_in_parts(self, inputs: EncoderInputs) -> ServedOutputs:
        """Runs `predict` on a few windows at a time."""
        rows = tf.shape(inputs.input_ids)[0]
        num_parts = tf.maximum((rows + _WINDOWS_AT_ONCE - 1) // _WINDOWS_AT_ONCE, 1)
        part_rows = (rows + num_parts - 1) // num_parts
        padding = [[0, num_parts * part_rows - rows], [0, 0]]
        parts = tuple(
            tf.reshape(tf.pad(x, padding), [num_parts, part_rows, tf.shape(x)[1]])
            for x in inputs
        )
        predict = tf.function(
            lambda *part: self.predict(EncoderInputs(*part)), autograph=False
        ).get_concrete_function(*[tf.TensorSpec([None, None], tf.int32)] * len(inputs))
        signature = {
            name: tf.TensorSpec(value.shape, value.dtype)
            for name, value in predict.structured_outputs.items()
        }
        outputs = tf.map_fn(
            lambda part: predict(*part),
            parts,
            fn_output_signature=signature,
            parallel_iterations=1,
        )
        return {
            name: tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], axis=0))[:rows]
            for name, x in outputs.items()
        }

    def _spans(
        self,
        outputs: ServedOutputs,
        first_token: tf.Tensor,
        length: tf.Tensor,
        is_max_context: tf.Tensor,
    ) -> _Spans:
        """Returns the spans of rows, as `finetune.tasks.qa.nbest.NBestDecoder` chooses them."""
        config = self._config
        if config.joint_prediction:
            start, end = outputs["start_top_index"][..., None], outputs["end_top_index"]
            start_score = outputs["start_top_log_probs"][..., None]
            end_score = outputs["end_top_log_probs"]
        else:
            count = tf.minimum(config.n_best_size, tf.shape(outputs["start_logits"])[1])
            start_score, start = tf.math.top_k(outputs["start_logits"], count)
            end_score, end = tf.math.top_k(outputs["end_logits"], count)
            start, start_score = start[..., None], start_score[..., None]
            end, end_score = end[:, None], end_score[:, None]
        shape = tf.shape(start + end)
        flat = tf.stack([shape[0], shape[1] * shape[2]])
        start, end = (tf.reshape(tf.broadcast_to(x, shape), flat) for x in (start, end))
        score = tf.reshape(start_score + end_score, flat)
        first, last = start - first_token[:, None], end - first_token[:, None]
        is_valid = (first >= 0) & (first <= last) & (last < length[:, None])
        is_valid &= last - first < config.max_answer_length
        # One more column, in case all contexts of the batch are empty.
        shown = tf.pad(is_max_context, [[0, 0], [0, 1]])
        within = tf.clip_by_value(first, 0, tf.shape(shown)[1] - 1)
        is_valid &= tf.gather(shown, within, batch_dims=1)
        return _Spans(start, end, tf.where(is_valid, score, _NOT_A_SPAN))

    def _null_scores(self, outputs: ServedOutputs) -> tf.Tensor:
        """Returns the null score of each row, float32 [rows]."""
        if self._config.answerable_classifier:
            return outputs["answerable_logit"]
        score = outputs["start_logits"][:, 0]
        if self._config.joint_prediction:
            return score
        return score + outputs["end_logits"][:, 0]

    def _null_odds(self, null_scores: tf.Tensor, score: tf.Tensor) -> tf.Tensor:
        return null_scores if self._config.answerable_classifier else null_scores - score


def _is_max_context(shown: tf.RaggedTensor, num_pieces: tf.Tensor) -> tf.Tensor:
    """Returns whether a window has the maximum context of a piece, among all windows.

    The maximum context is the largest minimum of left and right context.

    Args:
        shown: int32 ragged [windows, pieces], indices of the pieces in each window.
        num_pieces: number of pieces in all contexts.

    Returns:
        bool [windows, pieces]; at most one window is True for a piece, the first in a tie.
    """
    lengths = tf.cast(shown.row_lengths(), tf.int32)
    left = tf.ragged.range(lengths).values
    length = tf.repeat(lengths, lengths)
    score = tf.cast(tf.minimum(left, length - 1 - left), tf.float64)
    score += LENGTH_WEIGHT * tf.cast(length, tf.float64)
    piece, window = shown.values, tf.cast(shown.value_rowids(), tf.int32)
    best = tf.math.unsorted_segment_max(score, piece, num_pieces)
    is_best = score == tf.gather(best, piece)
    last = tf.shape(lengths)[0]
    first = tf.math.unsorted_segment_min(tf.where(is_best, window, last), piece, num_pieces)
    return shown.with_values(window == tf.gather(first, piece)).to_tensor()


def _best_of_examples(
    scores: tf.Tensor, rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the window, the span in it and the score of the best span of each example.

    Args:
        scores: float32 [windows, spans].
        rows: int32 [batch + 1], the first window of each example, and the number of windows.
    """
    num_spans = tf.shape(scores)[1]
    per_example = tf.RaggedTensor.from_row_splits(scores, rows, validate=False)
    dense = per_example.to_tensor(_NOT_A_SPAN)  # (batch, windows, spans)
    # A batch may have no examples, and then no windows.
    most_windows = tf.maximum(tf.shape(dense)[1], 1)
    flat = tf.reshape(dense, [tf.shape(dense)[0], most_windows * num_spans])
    best = tf.argmax(flat, axis=1, output_type=tf.int32)
    score = tf.gather(flat, best, batch_dims=1)
    return rows[:-1] + best // num_spans, best % num_spans, score
