"""Tasks of the page tell which texts they have not read to their end."""

import types

import numpy as np

from electra_tf.inference.web_demo.models import ExportedModel, TaskModel


def test_a_task_tells_that_it_reads_no_more(demo_config):
    """Of 32 tokens, [CLS] and [SEP] leave 30 for the text."""
    task = TaskModel(ExportedModel(demo_config.tasks["topic"], "--tasks"), "--tasks")
    answers = {count: task.answer(text="x " * count) for count in (29, 30, 40)}
    full = {count: answer.get("full") for count, answer in answers.items()}
    assert full == {29: None, 30: ["text"], 40: ["text"]}
    assert answers[40] == answers[30]


def test_texts_that_are_divided_or_marked_are_not_called_full():
    def full(
        kind_output: str,
        names: tuple[str, ...],
        text: str = "long\ntext " * 4,
        **description: object,
    ) -> list[str]:
        model = types.SimpleNamespace(
            tokenizer=None,
            input_names=names,
            list_names=("choices",) if "choices" in names else (),
            output_names=(kind_output,),
            description=description,
            answer=lambda **texts: {kind_output: np.zeros(2)},  # whatever the texts are
        )
        texts = dict.fromkeys(names, text)
        return TaskModel(model, "--tasks").answer(**texts).get("full", [])

    pair, length = ("text_a", "text_b"), {"max_seq_length": 16}
    assert full("label", pair, **length) == ["text_a", "text_b"]
    assert full("label", pair, **length, long_text="windows") == []
    assert full("label", pair, max_seq_length=128) == []
    assert full("label", pair, "\ud55c" * 24, max_seq_length=128) == ["text_a", "text_b"]
    assert full("label", pair) == []  # an export of an older version
    assert full("answer", ("question", "context"), **length, max_query_length=9) == ["question"]
    assert full("tags", ("text",), **length) == []
    assert full("choice", ("text", "choices"), **length) == ["text"]
