"""Serving of multiple choice."""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.text_inputs import EncoderInputs, pair_inputs
from finetune.tasks.choice.task import ChoiceTask
from finetune.tasks.servable import TaskServable


class ChoiceServable(TaskServable[ChoiceTask]):
    """Takes `text`, `question` if the task has them, and `choices` string [batch, choices].

    There may be any number of choices; "" fills the columns of missing ones. Outputs: `choice`
    string [batch], the best one; `index` int32 [batch], its index from 0; and `scores` float32
    [batch, choices], the probabilities, which are 0 at "". Without choices, a row has the
    choice "" and the index -1.

    The signature "tokens" takes a row for each choice, `[CLS] text [SEP] question choice
    [SEP]`, and returns its `logits` float32 [rows]: probabilities are their softmax over the
    choices of an example.
    """

    list_names = ("choices",)

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text", *(("question",) if self.task.has_question else ()), "choices")

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        head = self._model.head(self.task.name)
        output = self._model.electra(*inputs, positions=head.positions).sequence_output
        return {"logits": head.scores(output[:, 0])}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        return self.predict(inputs)

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        choices = texts["choices"]
        # The first column is encoded even if it is empty: the batch may have no other choice.
        choices = tf.pad(choices, [[0, 0], [0, tf.maximum(1 - tf.shape(choices)[1], 0)]])
        is_choice = tf.strings.length(tf.strings.strip(choices)) > 0
        is_first = tf.range(tf.shape(choices)[1]) == 0
        places = tf.where(is_choice | is_first)  # (encoded, 2)
        rows, given = places[:, 0], tf.gather_nd(choices, places)
        if self.task.has_question:
            given = tf.strings.join([tf.gather(texts["question"], rows), given], " ")
        inputs = pair_inputs(
            self.vocabulary,
            tf.gather(self.tokenizer.tokenize(texts["text"]), rows),
            self.tokenizer.tokenize(given),
            self.max_seq_length,
        )
        logits = self.predict(inputs)["logits"]
        none = tf.fill(tf.shape(choices), logits.dtype.min)
        logits = tf.where(is_choice, tf.tensor_scatter_nd_update(none, places, logits), none)
        best = tf.argmax(logits, axis=1, output_type=tf.int32)
        has_choice = tf.reduce_any(is_choice, axis=1)
        return {
            "choice": tf.where(has_choice, tf.gather(choices, best, batch_dims=1), ""),
            "index": tf.where(has_choice, best, -1),
            "scores": tf.where(is_choice, tf.nn.softmax(logits), 0.0),
        }
