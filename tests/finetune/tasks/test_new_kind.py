"""A new kind of task is one module and one `TaskKind`, and works everywhere."""

import json
import pathlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.saved_config import load_saved_config
from electra_tf.inference.export.config import ExportConfig
from electra_tf.interop.model_checkpoint import TASKS
from electra_tf.util.errors import UserError
from finetune.config import task_kinds
from finetune.config.task_spec_parser import load_specs
from finetune.export import load_finetuned
from finetune.model import FinetuningModel
from finetune.model_family import finetuned_variables
from finetune.run import run
from tests.finetune.tasks.counting import COUNTING, CountingHead, CountingTask

TEXTS = [" ".join(f"w{(7 * i + j) % 30}" for j in range(1 + i % 5)) for i in range(24)]


@pytest.fixture(autouse=True)
def _kind(monkeypatch):
    monkeypatch.setattr(task_kinds, "KINDS", (*task_kinds.KINDS, COUNTING))


@pytest.fixture
def spec(tmp_path) -> dict:
    """Describes a task whose label is the number of words."""
    lines = [f"{text}\t{len(text.split())}" for text in TEXTS]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    (tmp_path / "new.tsv").write_text("\n".join(["text", *TEXTS[:3]]) + "\n")
    files = {split: str(tmp_path / "train.tsv") for split in ("train", "dev")}
    return {"name": "words", "kind": "counting", "files": files}


def test_from_a_description_to_an_exported_model(make_finetuning_config, spec, tmp_path):
    config = make_finetuning_config(
        task_names=("words",),
        task_spec=json.dumps(spec),
        do_predict=True,
        predict_file=str(tmp_path / "new.tsv"),
    )
    lines: list[str] = []
    (result,) = run(config, lines.append)
    assert result.finished
    assert result.steps == 6
    assert result.main == {"words/dev": "exact"}
    assert 0 <= result.metrics["words/dev"]["exact"] <= 100
    path = pathlib.Path(config.results_dir) / "words_predictions.jsonl"
    predicted = [json.loads(line)["prediction"] for line in path.read_text().splitlines()]

    model_dir = f"{config.model_dir}_1"
    saved = load_saved_config(model_dir).hyperparameters
    assert saved[TASKS] == {"words": {"kind": "counting", "has_pairs": False}}
    export = ExportConfig(model_dir=model_dir, export_dir=tmp_path / "exported")
    servable = load_finetuned(export, saved, lines.append)
    answers = servable.answer_texts({"text": tf.constant(TEXTS[:3])})
    np.testing.assert_allclose(answers["rate"].numpy(), predicted, rtol=1e-5)
    assert np.ptp(predicted) > 0


def test_its_head_is_rebuilt_from_shapes():
    shapes = {"dense/kernel": (8, 1), "dense/bias": (1,)}
    head = CountingTask.saved_head("words", 8, shapes, "float32")
    assert isinstance(head, CountingHead)
    assert {v.path: tuple(v.shape) for v in head.variables} == {
        "words/dense/kernel": (8, 1),
        "words/dense/bias": (1,),
    }


@pytest.mark.parametrize("is_built", [True, False])
def test_layers_whose_variables_would_not_be_trained_are_refused(
    make_finetuning_config, is_built
):
    class HiddenHead(CountingHead):
        """Has a block of layers of Keras."""

        def __init__(self, *given) -> None:
            super().__init__(*given)
            with keras.name_scope(self.name):
                self.block = keras.Sequential([keras.layers.Dense(3)], name="block")
                if is_built:
                    self.block.build((None, 16))

    def build_head(encoder: EncoderConfig, dtype: keras.DTypePolicy) -> HiddenHead:
        return HiddenHead(encoder.hidden_size, 1, dtype, "words")

    task = SimpleNamespace(name="words", build_head=build_head)
    encoder = make_finetuning_config().encoder
    if is_built:
        model = FinetuningModel(encoder, [task])
        assert len(model.head("words").variables) == 4
        # Conversions have all of them, too.
        mapped = {id(entry.variable) for entry in finetuned_variables(model)}
        assert {id(variable) for variable in model.variables} == mapped
        return
    with pytest.raises(ValueError, match="the layer block of the head of task words is not"):
        FinetuningModel(encoder, [task])


def test_its_columns_metrics_and_defaults(make_finetuning_config, spec):
    with pytest.raises(UserError, match='"metric" of a counting task must be one of exact'):
        load_specs(json.dumps({**spec, "metric": "mcc"}))
    with pytest.raises(
        UserError, match="The roles of a counting task are text, text_a, label, id"
    ):
        load_specs(json.dumps({**spec, "columns": {"words": 0}}))
    with pytest.raises(UserError, match=r'"labels" is for .*, but this task is counting'):
        load_specs(json.dumps({**spec, "labels": ["1", "2"]}))
    config = make_finetuning_config(
        task_names=("words",), task_spec=json.dumps(spec), num_train_epochs=None
    )
    assert config.num_train_epochs == 7
