"""Exported tasks answer raw text in a process of their own as the project does in this one."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export, load_servable
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.util.console import discard
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from finetune.export import FINETUNED
from finetune.tasks.qa.examples import Context, QAExample
from finetune.tasks.tagging.examples import TaggingExample
from finetune.tasks.tagging.spans import bioes_labels
from finetune.tasks.text.examples import InputExample
from tests.electra_tf.inference.export.requests import Server, arrays, predict
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, format_of, read
from tests.finetune.exported_models import InProcess, write_finetuned

LOADERS = (PRETRAINED, FINETUNED)
TASKS = {
    "topic": {"kind": "classification", "has_pairs": False, "labels": ["a", "b", "ç"]},
    "pairs": {"kind": "multilabel", "has_pairs": True, "labels": ["a", "b", "c"]},
    "number": {"kind": "regression", "has_pairs": True, "min_label": 1.0, "max_label": 5.0},
    "spans": {"kind": "tagging", "labels": list(bioes_labels(["P", "L"])), "level": "span"},
    "words": {"kind": "tagging", "labels": list("NVADPXYZ"), "level": "token"},
    "answers": {"kind": "qa", "v2": False},
    "unsure": {"kind": "qa", "v2": True},
}
TEXTS = [
    "The old bridge",
    "Été anna! berg 1895-1943 " * 8,
    "",
    "japanese\tsons\u200b over the river",
]
SECOND_TEXTS = ["who built it", "", "when was it " * 20, "x ?"]
QUESTIONS = ["who built it?", "what stands here " * 9, "when", "", "who ?", "who\n?"]
CONTEXTS = [
    "The old bridge over river was built in 1895-1943 by Anna Berg and her two sons.",
    "\n  Japanese   cafe\u0301 (sta\u200bnds) here, what? by ÄNNA  bérg who x y z xyz qqq  "
    * 6,
    "",
    "anna",
    "The \u00a0old x,y z. ",
    "x y z b 1895 " * 12,
]
# What a client has: TensorFlow, TensorFlow Text and the folder.
FRESH_PROCESS = """
import json, sys
import tensorflow as tf
import tensorflow_text

answers = {}
for name, (folder, inputs) in json.loads(sys.stdin.read()).items():
    signature = tf.saved_model.load(folder).signatures["serving_default"]
    outputs = signature(**{key: tf.constant(texts) for key, texts in inputs.items()})
    answers[name] = {
        key: [x.decode() for x in value.numpy().ravel()] if value.dtype == tf.string
        else value.numpy().ravel().tolist()
        for key, value in outputs.items()
    }
    answers[name] |= {key + "/shape": value.shape.as_list() for key, value in outputs.items()}
assert not {"electra_tf", "finetune", "pretrain_data", "keras_hub"} & set(sys.modules)
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("finetuned")
    return write_finetuned(
        folder,
        TASKS,
        max_query_length=6,
        doc_stride=6,
        beam_size=6,
        # Between the null odds of the questions above.
        qa_na_threshold=150.0,
    )


@pytest.fixture(scope="module")
def expected(model_dir) -> dict[str, list[dict]]:
    """What the project predicts, by task."""
    project = InProcess(model_dir)
    pairs = list(zip(TEXTS, SECOND_TEXTS, strict=True))
    sentences = [text or "x" for text in TEXTS]
    words = [TaggingExample(i, tuple(t.split()), ()) for i, t in enumerate(sentences)]
    questions = [
        QAExample(i, str(i), question, Context(context))
        for i, (question, context) in enumerate(zip(QUESTIONS, CONTEXTS, strict=True))
    ]
    examples = {
        "topic": [InputExample(i, a, None, "a") for i, a in enumerate(TEXTS)],
        "pairs": [InputExample(i, a, b, ("a",)) for i, (a, b) in enumerate(pairs)],
        "number": [InputExample(i, a, b, 1.0) for i, (a, b) in enumerate(pairs)],
        "spans": words,
        "words": words,
        "answers": questions,
        "unsure": questions,
    }
    return {name: project.predictions(name, examples[name]) for name in TASKS}


@pytest.fixture(scope="module")
def exported(model_dir, tmp_path_factory) -> dict[str, tuple[str, dict[str, list[str]]]]:
    """The export of each task, and texts to ask it."""
    folder = tmp_path_factory.mktemp("exported")
    pair = {"text_a": TEXTS, "text_b": SECOND_TEXTS}
    sentences = {"text": [text or "x" for text in TEXTS]}
    questions = {"question": QUESTIONS, "context": CONTEXTS}
    inputs = {
        "topic": {"text": TEXTS},
        "pairs": pair,
        "number": pair,
        "spans": sentences,
        "words": sentences,
        "answers": questions,
        "unsure": questions,
    }
    asked = {}
    for name in TASKS:
        config = ExportConfig(model_dir=model_dir, export_dir=folder / name, component=name)
        asked[name] = (str(export(config, LOADERS, lambda line: None)), inputs[name])
    return asked


@pytest.fixture(scope="module")
def answers(exported) -> dict[str, dict]:
    """What a fresh process answers, by task; arrays in their shapes."""
    result = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS],
        input=json.dumps(exported),
        capture_output=True,
        text=True,
        cwd="/",
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    flat = json.loads(result.stdout.splitlines()[-1])
    return {
        name: {
            key: np.array(value).reshape(outputs[f"{key}/shape"])
            for key, value in outputs.items()
            if not key.endswith("/shape")
        }
        for name, outputs in flat.items()
    }


@pytest.mark.parametrize("name", ["topic", "pairs", "words", "unsure"])
def test_a_model_server_gives_the_same_answers(exported, answers, name):
    """By `PredictRequest`, and by the JSON of its REST interface."""
    folder, inputs = exported[name]
    server = Server(folder)
    response = predict(server, name, **inputs)
    assert response.model_spec.version.value == 1
    rows = [dict(zip(inputs, row, strict=True)) for row in zip(*inputs.values(), strict=True)]
    rest = server.rest(json.dumps({"instances": rows}))["predictions"]
    found = arrays(response)
    assert found.keys() == answers[name].keys() == rest[0].keys()
    for key, wanted in answers[name].items():
        of_rest = np.array([row[key] for row in rest])
        if wanted.dtype.kind == "U":
            decoded = [text.decode() for text in found[key].ravel()]
            assert decoded == of_rest.ravel().tolist() == wanted.ravel().tolist()
        else:
            np.testing.assert_allclose(found[key], wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(of_rest, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pairs", "answers"])
def test_texts_of_different_numbers_are_refused(exported, name):
    folder, inputs = exported[name]
    first, second = inputs
    server = Server(folder)
    for given in ({first: ["a", "b"], second: ["c"]}, {first: ["a"], second: ["b", "c"]}):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="must have the same number of rows"
        ):
            predict(server, name, **given)


def test_the_request_of_the_readme(exported):
    server = Server(exported["topic"][0])
    answer = server.rest('{"instances": ["The invoice is wrong."]}')
    (prediction,) = answer["predictions"]
    assert prediction.keys() == {"label", "labels", "scores"}
    assert prediction["label"] in prediction["labels"]


def test_the_request_for_pairs_of_the_page_on_serving(exported):
    page = (pathlib.Path(__file__).parents[2] / "docs/serving.md").read_text(encoding="utf-8")
    (body,) = re.findall(r'`(\{"instances": \[\{.*?\}\]\})`', page)
    (prediction,) = Server(exported["pairs"][0]).rest(body)["predictions"]
    assert prediction["labels"] == ["a", "b", "c"]


def test_classification(answers, expected):
    answer = answers["topic"]
    assert answer["label"].tolist() == [p["prediction"] for p in expected["topic"]]
    assert answer["labels"].tolist() == [["a", "b", "ç"]] * 4
    wanted = [list(p["probabilities"].values()) for p in expected["topic"]]
    np.testing.assert_allclose(answer["scores"], wanted, atol=1e-5)
    assert np.ptp(answer["scores"], axis=0).max() > 0.1  # the texts do make a difference


def test_multilabel(answers, expected):
    answer = answers["pairs"]
    wanted = [list(p["probabilities"].values()) for p in expected["pairs"]]
    np.testing.assert_allclose(answer["scores"], wanted, atol=1e-5)
    for row, count, prediction in zip(
        answer["predicted_labels"], answer["num_predicted"], expected["pairs"], strict=True
    ):
        assert row[:count].tolist() == prediction["prediction"]
        assert not any(row[count:])


def test_regression(answers, expected):
    wanted = [p["prediction"] for p in expected["number"]]
    np.testing.assert_allclose(answers["number"]["score"], wanted, atol=1e-4)


@pytest.mark.parametrize("name", ["spans", "words"])
def test_tagging(answers, expected, name):
    answer = answers[name]
    for i, prediction in enumerate(expected[name]):
        count = answer["num_words"][i]
        assert answer["words"][i, :count].tolist() == prediction["words"]
        tags = [tag or None for tag in answer["tags"][i, :count]]
        assert tags == prediction["tags"]
        assert not any(answer["tags"][i, count:])
        unseen = answer["tags"][i] == ""
        assert (answer["scores"][i] == 0).tolist() == unseen.tolist()
    assert None in expected[name][1]["tags"]  # a sentence was cut
    assert len({tag for p in expected[name] for tag in p["tags"]} - {None}) > 1


def test_answers_are_parts_of_their_contexts(answers, expected):
    answer = answers["answers"]
    for i, prediction in enumerate(expected["answers"]):
        start, end = answer["start"][i], answer["end"][i]
        if not CONTEXTS[i]:
            assert (answer["answer"][i], start, end) == ("", -1, -1)
            continue
        assert answer["answer"][i] == CONTEXTS[i][start:end] != ""
        # In this process words are joined by single blanks.
        assert " ".join(answer["answer"][i].split(" ")).split() == prediction["answer"].split()
        best = prediction["nbest"][0]
        score = best["start_logit"] + best["end_logit"]
        np.testing.assert_allclose(answer["score"][i], score, atol=1e-4)
    assert "null_odds" not in answer


def test_questions_without_answer(answers, expected):
    answer = answers["unsure"]
    wanted = [p["null_odds"] for p in expected["unsure"]]
    np.testing.assert_allclose(answer["null_odds"], wanted, rtol=1e-4, atol=1e-3)
    given = [p["answer"] for p in expected["unsure"]]
    assert [a.split() for a in answer["answer"]] == [a.split() for a in given]
    assert [bool(a) for a in given] == (answer["start"] >= 0).tolist()
    assert any(given)
    assert not all(given[:2] + given[3:])


@pytest.mark.parametrize("name", TASKS)
def test_no_texts_have_no_answers(model_dir, name):
    """A client may send an empty batch, such as the rest of its rows."""
    config = ExportConfig(model_dir=model_dir, export_dir=pathlib.Path("none"), component=name)
    servable = load_servable(config, LOADERS, discard)
    found = tf.function(servable.answer_texts, autograph=False)(
        {text: tf.zeros([0], tf.string) for text in servable.text_names}
    )
    assert found
    assert all(value.shape[0] == 0 for value in found.values())


def test_ids_get_the_answers_of_their_texts(model_dir):
    """The signature "tokens" of a task whose text is one short row."""
    servable = load_servable(
        ExportConfig(model_dir=model_dir, export_dir=pathlib.Path("x"), component="unsure"),
        LOADERS,
        lambda line: None,
    )
    tokenize = servable.tokenizer.tokenize
    question = tokenize(tf.constant(["who built it ?"])).values.numpy().tolist()
    context = tokenize(tf.constant(["the old bridge by anna berg"])).values.numpy().tolist()
    vocabulary = servable.vocabulary
    ids = [vocabulary.cls_id, *question, vocabulary.sep_id, *context, vocabulary.sep_id]
    segments = [0] * (len(question) + 2) + [1] * (len(context) + 1)
    with servable.tracing():
        of_ids = servable.answer_tokens(
            EncoderInputs(
                tf.constant([ids]), tf.ones([1, len(ids)], tf.int32), tf.constant([segments])
            )
        )
        of_texts = servable.answer_texts(
            {
                "question": tf.constant(["who built it ?"]),
                "context": tf.constant(["the old bridge by anna berg"]),
            }
        )
    np.testing.assert_allclose(of_ids["score"], of_texts["score"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(of_ids["null_odds"], of_texts["null_odds"], rtol=1e-4, atol=1e-5)
    first, last = int(of_ids["start_position"][0]), int(of_ids["end_position"][0])
    words = [t.decode() for t in of_ids["tokens"][0, first : last + 1].numpy()]
    if of_texts["answer"][0]:
        assert " ".join(words) == of_texts["answer"][0].numpy().decode()
    assert len(question) + 2 <= first <= last < len(ids) - 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("spans", {"segment_id": 1, "level": "span"}),
        (
            "unsure",
            {
                "v2": True,
                "answerable_classifier": True,
                "max_query_length": 6,
                "doc_stride": 6,
                "beam_size": 6,
                "n_best_size": 20,
                "max_answer_length": 30,
                "qa_na_threshold": 150.0,
            },
        ),
        ("topic", {"long_text": "truncate"}),
    ],
)
def test_clients_are_told_how_rows_are_made_and_read(model_dir, name, told):
    config = ExportConfig(model_dir=model_dir, export_dir=pathlib.Path("x"), component=name)
    servable = load_servable(config, LOADERS, discard)
    assert servable.metadata.items() >= {"max_seq_length": 32, **told}.items()
    checkpoint = tf.train.latest_checkpoint(model_dir)
    step = int(checkpoint.rpartition("-")[2])
    assert servable.metadata["source"] == {"checkpoint": checkpoint, "step": step}


def test_long_questions_are_cut_to_leave_room_for_contexts(model_dir):
    config = ExportConfig(
        model_dir=model_dir,
        export_dir=pathlib.Path("x"),
        component="answers",
        max_seq_length=9,  # with the run's max_query_length of 6, nothing is left
    )
    short = load_servable(config, LOADERS, discard)
    questions = ["who built it who built it", "who built it who built", "who"]
    with short.tracing():
        answer = short.answer_texts(
            {
                "question": tf.constant(questions),
                "context": tf.constant(["the old bridge by anna berg"] * 3),
            }
        )
    assert answer["answer"][0] == answer["answer"][1] != b""
    assert answer["score"][0] == answer["score"][1] != answer["score"][2]


def test_a_model_that_does_not_describe_its_tasks_is_refused(model_dir, tmp_path):
    path = pathlib.Path(model_dir) / "config.json"
    content = without_seal(json.loads(path.read_text()), path)
    del content["hyperparameters"]["tasks"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    config = ExportConfig(model_dir=str(tmp_path), export_dir=tmp_path / "x")
    with pytest.raises(UserError, match="does not describe its tasks"):
        load_servable(config, LOADERS)


def test_a_folder_without_its_checkpoint_is_refused(model_dir, tmp_path):
    for name in ("config.json", "vocab.txt", "vocab.tokenizer.json"):
        shutil.copy(pathlib.Path(model_dir, name), tmp_path)
    config = ExportConfig(model_dir=str(tmp_path), export_dir=tmp_path / "x", component="topic")
    with pytest.raises(UserError, match="contains no checkpoint of a fine-tuned model"):
        load_servable(config, LOADERS, discard)


def test_a_converted_encoder_is_served_as_far_as_its_positions_go(tmp_path):
    whole = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    encoder = dataclasses.replace(whole, arrays=whole.part("electra/"))
    format_of("electra_tf").write(encoder, str(tmp_path))
    config = ExportConfig(model_dir=str(tmp_path), export_dir=tmp_path / "x")
    servable = load_servable(config, LOADERS, discard)
    assert servable.max_seq_length == whole.description.encoder.max_position_embeddings == 16
    known = dataclasses.replace(encoder.description, trained_positions=12)
    shorter = dataclasses.replace(encoder, description=known)
    format_of("electra_tf").write(shorter, str(tmp_path / "known"))
    config = dataclasses.replace(config, model_dir=str(tmp_path / "known"))
    assert load_servable(config, LOADERS, discard).max_seq_length == 12


def test_the_embeddings_of_a_finetuned_model_are_those_of_its_encoder(model_dir, tmp_path):
    config = ExportConfig(model_dir=model_dir, export_dir=tmp_path, component="embeddings")
    servable = load_servable(config, LOADERS, discard)
    inputs = EncoderInputs(*(tf.constant([row]) for row in ([2, 9, 3], [1, 1, 1], [0, 0, 0])))
    states = InProcess(model_dir).model.electra(*inputs).sequence_output
    found = servable.predict(inputs)
    np.testing.assert_allclose(found["token_embeddings"], states, atol=1e-6)
    means = tf.reduce_mean(states, axis=1)
    np.testing.assert_allclose(found["sentence_embedding"], means, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "length", "served"), [(0, None, 16), (0, 12, 6), (25, 12, 10), (4, 12, 4)]
)
def test_windows_of_another_length_have_its_stride(tmp_path, given, length, served):
    """Half of the length by default, and never more than a window has of a text."""
    settings = {"long_text": "windows", "window_stride": given}
    config = ExportConfig(
        model_dir=write_finetuned(tmp_path, {"topic": TASKS["topic"]}, **settings),
        export_dir=tmp_path / "x",
        max_seq_length=length,
    )
    servable = load_servable(config, LOADERS, discard)
    assert servable.metadata["window_stride"] == servable.task.window_stride == served


def test_the_authors_truncation_of_tagging_is_not_exported(tmp_path, capsys):
    folder = write_finetuned(
        tmp_path, {"words": TASKS["words"]}, authors_tagging_truncation=True
    )
    load_servable(ExportConfig(model_dir=folder, export_dir=tmp_path / "x"), LOADERS, discard)
    assert "--authors_tagging_truncation, which exports ignore" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "high", "warned"),
    [(1.7e9, 1.7e9 + 110, True), (0, 1e-6, False), (-4e6, 1e7, False), (1.0, 1.00001, True)],
)
def test_labels_that_float32_does_not_tell_apart_are_warned_of(
    tmp_path, capsys, low, high, warned
):
    task = {**TASKS["number"], "min_label": low, "max_label": high}
    folder = write_finetuned(tmp_path, {"number": task})
    load_servable(ExportConfig(model_dir=folder, export_dir=tmp_path / "x"), LOADERS, discard)
    assert ("which rounds such numbers to multiples of" in capsys.readouterr().err) == warned


def test_a_task_may_be_called_like_the_embeddings(tmp_path):
    model_dir = write_finetuned(tmp_path, {"embeddings": TASKS["topic"]})
    servable = load_servable(
        ExportConfig(model_dir=model_dir, export_dir=tmp_path / "x"), LOADERS, discard
    )
    assert servable.metadata["task"] == "embeddings"


@pytest.mark.parametrize("name", ["number", "spans", "unsure"])
def test_onnx_models_answer_ids_in_float32_and_int8(model_dir, tmp_path, name):
    reason = "needs ONNX: pip install tf2onnx onnxruntime"
    pytest.importorskip("tf2onnx", reason=reason)
    onnxruntime = pytest.importorskip("onnxruntime", reason=reason)
    config = ExportConfig(
        model_dir=model_dir, export_dir=tmp_path / "exported", component=name, format="onnx"
    )
    folder = export(config, LOADERS, discard)
    ids = np.random.default_rng(1).integers(5, 40, (3, 16)).astype(np.int32)
    mask = (np.arange(16) < [[5], [16], [9]]).astype(np.int32)
    inputs = EncoderInputs(ids, mask, np.zeros_like(ids))
    wanted = load_servable(config, LOADERS, discard).predict(inputs)
    # The largest difference, relative to the range of each output.
    for file, tolerance in (("model.onnx", 1e-5), ("model_int8.onnx", 0.05)):
        session = onnxruntime.InferenceSession(str(folder / file))
        found = session.run(list(wanted), inputs._asdict())
        for output, actual in zip(wanted, found, strict=True):
            expected = wanted[output].numpy()
            if expected.dtype.kind == "f":
                atol = tolerance * np.ptp(expected)
                np.testing.assert_allclose(actual, expected, rtol=0, atol=atol, err_msg=output)
            else:
                assert np.mean(actual == expected) > 1 - 5 * tolerance, output


@pytest.mark.parametrize("joint", [True, False])
def test_answers_without_a_classifier_become_litert(tmp_path, joint):
    """Such as heads of Hugging Face; LiteRT has no operation of their losses."""
    interpreter = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="needs LiteRT: pip install ai-edge-litert"
    )
    settings = {"joint_prediction": joint, "answerable_classifier": False, "beam_size": 4}
    config = ExportConfig(
        model_dir=write_finetuned(tmp_path, {"answers": TASKS["answers"]}, **settings),
        export_dir=tmp_path / "exported",
        format="litert",
    )
    folder = export(config, LOADERS, discard)
    ids = np.random.default_rng(1).integers(5, 40, (2, 12)).astype(np.int32)
    mask = (np.arange(12) < [[9], [12]]).astype(np.int32)
    inputs = EncoderInputs(ids, mask, (np.arange(12) > 3) * mask)
    wanted = load_servable(config, LOADERS, discard).predict(inputs)
    model = interpreter.Interpreter(str(folder / "model_float32.tflite"))
    found = model.get_signature_runner()(**inputs._asdict())
    assert found.keys() == wanted.keys()
    assert not found["answerable_logit"].any()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)
