"""Multiple choice: the formula of the head, whole runs, and exports."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.flops.counting import finetuning_flops_per_step
from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.run import export, load_servable
from electra_tf.inference.web_demo.models import ExportedModel, TaskModel
from electra_tf.model.randomness import Randomness
from electra_tf.text.text_inputs import pair_inputs
from electra_tf.training.monitoring.run_info import read_log
from electra_tf.util.errors import UserError
from finetune import run_description
from finetune.data.batches import FeatureTable
from finetune.data.features import DataReport
from finetune.export import FINETUNED
from finetune.run import run
from finetune.tasks.choice.examples import ChoiceExample
from finetune.tasks.choice.task import ChoiceHead
from finetune.tasks.text import base as text_base
from finetune.tasks.text.class_loss import ClassLoss
from finetune.tasks.text.examples import InputExample
from tests.electra_tf.inference.export.requests import Server, arrays, predict
from tests.electra_tf.test_distributed_pretraining import MIRRORED, NO_DROPOUT
from tests.finetune.exported_models import InProcess, write_finetuned
from tests.finetune.test_run import weights_of

HIDDEN = 3
NUM_TRAIN, NUM_DEV = 64, 24


def make_head(num_choices, **settings):
    head = ChoiceHead(
        HIDDEN, keras.DTypePolicy("float32"), "mine", num_choices=num_choices, **settings
    )
    head.dense.kernel.assign(np.array([[0.5], [-1.0], [0.25]]))
    head.dense.bias.assign([0.75])
    return head


def batch(counts, labels, num_choices):
    """Returns random states and the features that the head reads."""
    generator = np.random.default_rng(2)
    states = generator.normal(size=(len(counts), num_choices, 4, HIDDEN)).astype(np.float32)
    features = {"mine_label_ids": tf.constant(labels, tf.int32)}
    for index in range(num_choices):
        name = f"input_mask/{index}" if index else "input_mask"
        mask = np.zeros((len(counts), 4), np.int32)
        mask[np.array(counts) > index, :3] = 1
        features[name] = tf.constant(mask)
    return states, features


@pytest.mark.parametrize(("smoothing", "gamma"), [(0.0, 0.0), (0.2, 0.0), (0.0, 2.0)])
def test_the_loss_is_that_of_a_softmax_over_the_choices(smoothing, gamma):
    counts, labels = [3, 2, 3], [2, 0, 1]
    states, features = batch(counts, labels, 3)
    head = make_head(3, loss=ClassLoss(smoothing, gamma))
    losses, outputs = head(states, features, is_training=True)
    for row, (count, label) in enumerate(zip(counts, labels, strict=True)):
        scores = states[row, :count, 0] @ np.array([0.5, -1.0, 0.25]) + 0.75
        log_p = scores - np.log(np.exp(scores).sum())
        target = (1 - smoothing) * np.eye(count)[label] + smoothing / count
        easiness = (1 - np.exp(log_p[label])) ** gamma
        np.testing.assert_allclose(losses[row], -easiness * (target @ log_p), rtol=1e-5)
        np.testing.assert_allclose(outputs["logits"][row, :count], scores, rtol=1e-5)
        assert (outputs["logits"][row, count:].numpy() == np.finfo(np.float32).min).all()
        assert outputs["predictions"][row] == scores.argmax()
    evaluated, _ = head(states, features)
    plain, _ = make_head(3)(states, features)
    np.testing.assert_array_equal(evaluated, plain)


def write_splits(folder: pathlib.Path) -> dict[str, str]:
    """The right choice has words below w15, others have words from w15 on.

    Every sixth label of dev is wrong.
    """
    generator = np.random.default_rng(5)

    def sentence(first: int) -> str:
        size = generator.integers(2, 5)
        return " ".join(f"w{first + i}" for i in generator.integers(0, 15, size))

    files = {}
    for split, count in (("train", NUM_TRAIN), ("dev", NUM_DEV), ("test", 5)):
        records = []
        for number in range(count):
            choices = [sentence(15) for _ in range(2 + number % 2)]
            label = int(generator.integers(len(choices)))
            choices[label] = sentence(0)
            if split == "dev" and number % 6 == 5:
                label = (label + 1) % len(choices)
            record = {"text": sentence(10 * (number % 2)), "choices": choices, "id": number}
            records.append(record if split == "test" else {**record, "label": label})
        path = folder / f"{split}.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        files[split] = str(path)
    return files


def read_lines(path: pathlib.Path | str) -> list[dict]:
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


@pytest.fixture
def spec(tmp_path) -> dict:
    columns = {name: name for name in ("text", "choices", "label", "id")}
    return {
        "name": "pick",
        "kind": "multiple_choice",
        "files": write_splits(tmp_path),
        "columns": columns,
    }


def test_a_task_is_learned_and_served(make_finetuning_config, spec, tmp_path, monkeypatch):
    config = make_finetuning_config(
        task_names=("pick",),
        task_spec=json.dumps(spec),
        num_train_epochs=4,
        label_smoothing=0.1,
        write_test_outputs=True,
        do_predict=True,
        predict_file=spec["files"]["test"],
    )
    printed: list[str] = []
    told: list[float] = []
    monkeypatch.setattr(
        run_description, "describe_devices", lambda *args: told.append(args[-1]) or []
    )
    (result,) = run(config, printed.append)
    # Of each example, there is a sequence for each of three choices.
    assert told == [
        finetuning_flops_per_step(
            config.encoder,
            batch_size=3 * config.train_batch_size,
            seq_length=config.max_seq_length,
        )
    ]
    record = read_log(f"{config.model_dir}_1/train_log.jsonl")[0]
    rate = record["steps_per_second"]
    assert record["sequences_per_second"] == pytest.approx(3 * config.train_batch_size * rate)
    metrics = result.metrics["pick/dev"]
    # Chance is 42 %.
    assert metrics["accuracy"] == pytest.approx(100 * 5 / 6)
    assert metrics["ece"] < 30
    assert metrics["temperature"] > 1
    results = pathlib.Path(config.results_dir)
    errors = json.loads((results / "pick_dev_1_errors.json").read_text())
    assert errors["total"] == NUM_DEV / 6
    assert {error["gold"][:2] for error in errors["errors"]} <= {"0:", "1:", "2:"}
    predictions = read_lines(results / "pick_predictions.jsonl")
    given = read_lines(spec["files"]["test"])
    assert [prediction["id"] for prediction in predictions] == ["0", "1", "2", "3", "4"]
    for prediction, record in zip(predictions, given, strict=True):
        assert prediction["choice"] == record["choices"][int(prediction["prediction"])]
        assert list(prediction["probabilities"]) == ["0", "1", "2"][: len(record["choices"])]
        assert sum(prediction["probabilities"].values()) == pytest.approx(1)
    (outputs,) = results.glob("test_predictions/pick_test_1_predictions.jsonl")
    assert read_lines(outputs) == predictions

    # Features of the cache are those of the files.
    again = make_finetuning_config(
        task_names=("pick",),
        task_spec=json.dumps(spec),
        num_train_epochs=4,
        label_smoothing=0.1,
        do_train=False,
    )
    printed.clear()
    (evaluated,) = run(again, printed.append)
    assert any("cached features" in line for line in printed)
    assert evaluated.metrics["pick/dev"]["accuracy"] == metrics["accuracy"]
    assert evaluated.metrics["pick/dev"]["loss"] == pytest.approx(metrics["loss"], rel=1e-5)

    exported = ExportConfig(model_dir=f"{config.model_dir}_1", export_dir=tmp_path / "exported")
    servable = load_servable(exported, (FINETUNED,), printed.append)
    width = max(len(record["choices"]) for record in given)
    answers = servable.answer_texts(
        {
            "text": tf.constant([record["text"] for record in given]),
            "choices": tf.constant(
                [r["choices"] + [""] * (width - len(r["choices"])) for r in given]
            ),
        }
    )
    assert [c.decode() for c in answers["choice"].numpy()] == [
        prediction["choice"] for prediction in predictions
    ]
    none = {"text": tf.zeros([0], tf.string), "choices": tf.zeros([0, 0], tf.string)}
    assert {value.shape[0] for value in servable.answer_texts(none).values()} == {0}
    for scores, prediction in zip(answers["scores"].numpy(), predictions, strict=True):
        wanted = list(prediction["probabilities"].values())
        np.testing.assert_allclose(scores[: len(wanted)], wanted, atol=1e-5)
        assert not scores[len(wanted) :].any()


def test_folds(make_finetuning_config, spec):
    config = make_finetuning_config(
        task_names=("pick",),
        task_spec=json.dumps({**spec, "files": {"train": spec["files"]["train"]}}),
        num_folds=2,
        num_train_epochs=0.5,
        focal_gamma=1.0,
    )
    results = run(config, lambda line: None)
    assert [result.finished for result in results] == [True, True]
    assert sum(result.examples["held_out"] for result in results) == NUM_TRAIN


def test_the_step_compiles_together_with_another_task(make_finetuning_config, spec):
    """With every shape static, as on a TPU."""
    config = make_finetuning_config(
        task_names=("cola", "pick"),
        task_spec=json.dumps(spec),
        num_train_epochs=0.2,
        jit_compile=True,
        bucket_by_length=False,
        do_eval=False,
    )
    (result,) = run(config, lambda line: None)
    assert result.finished
    assert result.steps == 3


def test_two_devices_equal_one(make_finetuning_config, spec, monkeypatch, tmp_path):
    monkeypatch.setattr(text_base, "DROPOUT_RATE", 0.0)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
        **NO_DROPOUT,
    }
    weights = []
    for strategy in ({}, {**MIRRORED, "gradient_accumulation_steps": 2}):
        config = make_finetuning_config(
            task_names=("pick",),
            task_spec=json.dumps(spec),
            model_hparam_overrides=shape,
            model_dir=str(tmp_path / strategy.get("strategy", "one")),
            num_train_epochs=0.5,
            learning_rate=1e-4,
            do_eval=False,
            **strategy,
        )
        run(config, lambda line: None)
        weights.append(weights_of(f"{config.model_dir}_1"))
    assert weights[0].keys() == weights[1].keys()
    names = [name for name in weights[0] if "/_variables/" not in name]  # no moments
    assert len(names) > 10
    # Four steps of 1e-4; the bias of the head has no gradient but rounding.
    for name in names:
        np.testing.assert_allclose(weights[1][name], weights[0][name], atol=5e-6, err_msg=name)


def test_what_has_no_meaning_is_refused(make_finetuning_config, spec):
    for setting in ({"class_weights": "balanced"}, {"long_text": "windows"}):
        config = make_finetuning_config(
            task_names=("pick",), task_spec=json.dumps(spec), **setting
        )
        (name,) = setting
        with pytest.raises(UserError, match=f"--{name} is for .* but pick is multiple_choice"):
            run(config, lambda line: None)
    with pytest.raises(
        UserError, match='"metric" of a multiple_choice task must be one of acc'
    ):
        run(
            make_finetuning_config(
                task_names=("pick",), task_spec=json.dumps({**spec, "metric": "f1"})
            ),
            lambda line: None,
        )


TASKS = {
    "asked": {"kind": "multiple_choice", "labels": ["A", "B", "C", "D"], "has_question": True},
    "plain": {"kind": "multiple_choice", "labels": ["0", "1"], "has_question": False},
    "topic": {"kind": "classification", "has_pairs": False, "labels": ["a", "b"]},
}
TEXTS = ["The old bridge", "the river " * 20, "Été anna"]
QUESTIONS = ["who built it ?", "when", ""]
CHOICES = [
    ["anna", "her two sons", "the river was built", ""],
    ["in 1895", "1943 ( berg ) " * 9, "", ""],
    ["a cafe", "x y z", "what ?", "the old bridge"],
]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> str:
    return write_finetuned(tmp_path_factory.mktemp("finetuned"), TASKS)


@pytest.fixture(scope="module")
def served(model_dir, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("exported") / "asked"
    config = ExportConfig(model_dir=model_dir, export_dir=folder, component="asked")
    return export(config, (FINETUNED,), lambda line: None)


def asked_examples() -> list[ChoiceExample]:
    rows = zip(TEXTS, QUESTIONS, CHOICES, strict=True)
    return [
        ChoiceExample(i, text, question, tuple(filter(None, choices)), i % 2)
        for i, (text, question, choices) in enumerate(rows)
    ]


def test_a_batch_of_several_tasks_has_the_losses_of_each(model_dir):
    """Rows of a task with fewer sequences are not affected by those of others."""
    project = InProcess(model_dir)
    examples = {
        "asked": asked_examples(),
        "plain": [ChoiceExample(0, TEXTS[0], None, ("anna", "in 1895"), 1)],
        "topic": [InputExample(i, text, None, "b") for i, text in enumerate(TEXTS)],
    }
    tasks = [project.tasks[name] for name in TASKS]
    rows = [
        task.featurize(
            examples[task.name], is_training=True, report=DataReport(task.name, "train")
        )
        for task in tasks
    ]
    table = FeatureTable(rows, [task.feature_specs for task in tasks])
    batch = table.gather(np.arange(len(table)), 32)
    output = project.model.forward(batch, randomness=Randomness(1, 1, dropout=False))
    alone = []
    for task, part in zip(tasks, rows, strict=True):
        of_task = FeatureTable([part], [task.feature_specs]).gather(np.arange(len(part)), 32)
        alone.append(project.model.predict_task(of_task, task.name).losses)
    assert (output.losses.numpy() > 0).all()
    np.testing.assert_allclose(output.losses, np.concatenate(alone), rtol=1e-4)


def test_an_export_answers_as_the_project(model_dir, served):
    wanted = InProcess(model_dir).predictions("asked", asked_examples())
    server = Server(served)
    inputs = {"text": TEXTS, "question": QUESTIONS, "choices": CHOICES}
    answer = arrays(predict(server, "asked", **inputs))
    assert [choice.decode() for choice in answer["choice"]] == [p["choice"] for p in wanted]
    for row, prediction in enumerate(wanted):
        names = list(prediction["probabilities"])
        assert TASKS["asked"]["labels"][answer["index"][row]] == prediction["prediction"]
        shares = list(prediction["probabilities"].values())
        np.testing.assert_allclose(answer["scores"][row, : len(names)], shares, atol=1e-5)
        assert not answer["scores"][row, len(names) :].any()
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    rest = server.rest(json.dumps({"instances": rows}))["predictions"]
    np.testing.assert_allclose([row["scores"] for row in rest], answer["scores"], atol=1e-5)


@pytest.mark.parametrize(
    "choices", [[[], []], [["", " "], ["", ""]], [["", " "], ["", "anna"]]]
)
def test_a_row_without_choices_is_answered_alike_in_every_batch(served, choices):
    inputs = {"text": TEXTS[:2], "question": QUESTIONS[:2]}
    given = np.array(choices, object).reshape(2, -1)
    answer = arrays(predict(Server(served), "asked", **inputs, choices=given))
    best = [row.index("anna") if "anna" in row else -1 for row in choices]
    assert answer["index"].tolist() == best
    assert answer["choice"].tolist() == [b"" if index < 0 else b"anna" for index in best]
    assert answer["scores"].sum(axis=1).tolist() == [float(index >= 0) for index in best]


def test_texts_without_choices_of_their_own_are_refused(served):
    inputs = {"text": TEXTS[:2], "question": QUESTIONS[:2], "choices": CHOICES[:1]}
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must have the same number of rows"
    ):
        predict(Server(served), "asked", **inputs)


def test_ids_of_a_choice_get_its_score(model_dir, served):
    """The signature "tokens", and the formats that take ids, score row by row."""
    config = ExportConfig(model_dir=model_dir, export_dir=served, component="asked")
    servable = load_servable(config, (FINETUNED,), lambda line: None)
    tokenize = servable.tokenizer.tokenize
    second = [f"{QUESTIONS[0]} {choice}" for choice in CHOICES[0][:3]]
    inputs = pair_inputs(
        servable.vocabulary, tokenize([TEXTS[0]] * 3), tokenize(second), servable.max_seq_length
    )
    values = {name: value.numpy() for name, value in inputs._asdict().items()}
    logits = arrays(predict(Server(served), "asked", "tokens", **values))["logits"]
    texts = {"text": TEXTS[:1], "question": QUESTIONS[:1], "choices": CHOICES[:1]}
    answer = servable.answer_texts({name: tf.constant(value) for name, value in texts.items()})
    shares = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(answer["scores"][0, :3], shares, atol=1e-5)
    assert np.ptp(shares) > 0.01  # the choices do make a difference


def test_the_page_takes_choices_as_lines(served):
    model = TaskModel(ExportedModel(served.parent, "--tasks"), "--tasks")
    assert (model.kind, model.list_names) == ("multiple_choice", ("choices",))
    answer = model.answer(text=TEXTS[0], question=QUESTIONS[0], choices="anna\n\n her two sons")
    assert answer["choices"] == ["anna", "her two sons"]
    assert answer["choice"] == answer["choices"][answer["index"]]
    assert sum(answer["scores"]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(UserError, match="'choices' must have at least 2 lines"):
        model.answer(text="a", question="b", choices="only one")
