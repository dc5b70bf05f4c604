"""The page over exported models, by the framework's test client."""

import dataclasses
import json
import pathlib
import re
import types

import pytest
import tensorflow as tf

from electra_tf.inference.export.config import ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import export
from electra_tf.inference.web_demo.app import _create_app, _print_now, create_app
from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.inference.web_demo.models import ExportedModel, _lines, _require_same_tokenizer
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.util.errors import UserError
from tests.electra_tf.inference.web_demo.exports import LABELS


@pytest.fixture(scope="module")
def client(demo_config):
    return create_app(demo_config).test_client()


def test_the_page_has_a_form_for_each_model(client):
    response = client.get("/")
    page = response.get_data(as_text=True)
    assert 'data-url="/api/tokens"' in page
    assert 'data-url="/api/tasks/topic"' in page
    assert "maxlength" not in page  # browsers would cut what is pasted, silently
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    assert "<script>" not in page  # what the policy would not run
    assert page.count("Text: lowercased, accents stripped, vocabulary ") == 2


def test_shades_are_printed(client):
    style = client.get("/static/page.css").get_data(as_text=True)
    assert re.search(r"\.token, meter, mark \{.* print-color-adjust: exact; \}", style)


def test_models_of_different_tokenizers_are_refused(demo_config):
    path = demo_config.generator / "1/assets.extra/tokenizer.json"
    checksums = path.with_name("checksums.json")
    content, of_export = path.read_text(), checksums.read_text()
    path.write_text(content.replace('"strip_accents": true', '"strip_accents": false'))
    with pytest.raises(UserError, match=r"tokenizer\.json has changed since the export"):
        create_app(demo_config)
    checksums.unlink()
    message = "--generator=.* a different tokenizer from .* strip_accents is false, not true"
    try:
        with pytest.raises(UserError, match=message):
            create_app(demo_config)
    finally:
        path.write_text(content)
        checksums.write_text(of_export)


def test_tokens_have_probabilities_and_alternatives(client):
    answer = client.post("/api/tokens", json={"text": "w1 [MASK] w3"}).get_json()
    tokens = answer["tokens"]
    # The discriminator never sees masks: the tokenizer takes the word apart.
    assert [item["token"] for item in tokens] == ["w1", "[UNK]", "[UNK]", "[UNK]", "w3"]
    for item in tokens:
        assert 0 < item["probability"] < 1
        shares = [alternative["probability"] for alternative in item["alternatives"]]
        assert len(shares) == 3
        assert shares == sorted(shares, reverse=True)
    # Every token was masked in a row of its own.
    assert tokens[0]["alternatives"] != tokens[4]["alternatives"]
    assert client.post("/api/tokens", json={"text": ""}).get_json() == {"tokens": []}


def test_without_a_generator_there_are_no_alternatives(demo_config, client):
    alone = create_app(dataclasses.replace(demo_config, generator=None)).test_client()
    text = {"text": "w1 w3"}
    expected = client.post("/api/tokens", json=text).get_json()["tokens"]
    assert all(item["alternatives"] for item in expected)
    found = alone.post("/api/tokens", json=text).get_json()["tokens"]
    assert found == [{**item, "alternatives": []} for item in expected]


def test_a_text_that_is_not_read_to_its_end_is_told(client):
    limits = {
        count: client.post("/api/tokens", json={"text": "w1 " * count}).get_json().get("limit")
        for count in (13, 14, 30)
    }
    assert limits == {13: None, 14: 14, 30: 14}


def test_a_generator_that_reads_less_is_asked_for_no_more(demo_config, client, tmp_path):
    config = ExportConfig(
        model_dir=str(demo_config.generator.parent / "m"),
        export_dir=tmp_path / "short",
        component="generator",
        max_seq_length=9,
        top_k=3,
    )
    export(config, [PRETRAINED], lambda line: None)
    page = create_app(dataclasses.replace(demo_config, generator=config.export_dir))
    texts = {count: "w1 w2 " * count for count in (3, 4, 15)}
    answers = {
        count: page.test_client().post("/api/tokens", json={"text": text}).get_json()
        for count, text in texts.items()
    }
    assert [answer.get("limit") for answer in answers.values()] == [None, 7, 7]
    # The discriminator still reads what follows.
    long = client.post("/api/tokens", json={"text": texts[4]}).get_json()["tokens"]
    found = answers[4]["tokens"]
    assert [item["token"] for item in found] == ["w1", "w2"] * 3 + ["w1"]
    for ours, theirs in zip(found, long, strict=False):
        assert ours["probability"] == pytest.approx(theirs["probability"])
        assert len(ours["alternatives"]) == 3


def test_a_task_answers_with_its_labels(client):
    answer = client.post("/api/tasks/topic", json={"text": "the old bridge"}).get_json()
    assert answer["kind"] == "classification"
    assert answer["labels"] == LABELS
    best = max(range(len(LABELS)), key=lambda i: answer["scores"][i])
    assert answer["label"] == LABELS[best]
    assert sum(answer["scores"]) == pytest.approx(1, abs=1e-5)


def test_inputs_are_in_the_order_of_the_task(demo_config, monkeypatch):
    def specs(*names: str) -> dict[str, tf.TensorSpec]:
        return {name: tf.TensorSpec([None], tf.string) for name in names}

    for names in (("text_a", "text_b"), ("question", "context"), ("text", "question")):
        for loaded in (names, names[::-1]):
            given = specs(*loaded)
            monkeypatch.setattr(ExportedModel, "_specs", lambda *_, given=given: given)
            assert ExportedModel(demo_config.tasks["topic"], "--tasks").input_names == names


class PickFirst:
    """A task with a list of texts, which chooses the first."""

    tokenizer = None
    input_names = ("choices", "question", "text")
    list_names = ("choices",)

    def answer(self, choices: str, question: str, text: str) -> dict[str, str]:
        return {"choice": choices.splitlines()[0]}


def test_a_list_is_given_as_lines():
    config = DemoConfig(tasks={"pick": pathlib.Path("pick")}, max_characters=1000)
    client = _create_app(config, None, {"pick": PickFirst()}).test_client()
    page = client.get("/").get_data(as_text=True)
    assert re.findall(r'name="(\w+)"', page)[-3:] == ["question", "text", "choices"]
    assert "choices, one per line" in page
    # Escaped, three such texts are larger than a request with two could be.
    texts = dict.fromkeys(PickFirst.input_names, "😀\n" * 500)
    texts |= dict.fromkeys(("question", "text"), "😀" * 1000)
    assert len(json.dumps(texts)) > 2 * 12 * 1000 + 1000
    assert client.post("/api/tasks/pick", json=texts).get_json() == {
        "choice": "\N{GRINNING FACE}"
    }


class Overflow:
    """A task whose model has overflowed."""

    tokenizer = None
    input_names = ("text",)
    list_names = ()

    def answer(self, text: str) -> dict[str, list[float]]:
        return {"scores": [0.5, float("nan")]}


def test_outputs_that_are_not_finite_are_an_error():
    config = DemoConfig(tasks={"overflow": pathlib.Path("overflow")})
    client = _create_app(config, None, {"overflow": Overflow()}).test_client()
    response = client.post("/api/tasks/overflow", json={"text": "old"})
    assert response.status_code == 500
    assert "not finite" in response.get_json()["error"]


def test_the_newest_version_is_found_by_its_folder(demo_config, tmp_path):
    for name in ("3", "\N{SUPERSCRIPT TWO}"):
        (tmp_path / name).mkdir()
    (tmp_path / "007").symlink_to(demo_config.tasks["topic"] / "1")
    assert ExportedModel(tmp_path, "--task").directory == tmp_path / "007"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (
            "/api/tokens",
            {"text": "x" * 101},
            400,
            "'text' has 101 characters; the limit is 100",
        ),
        ("/api/tokens", {"text": "x" * 10_000}, 413, "at most 100 characters"),
        ("/api/tokens", {"txt": "x"}, 400, "a JSON object with a string 'text'"),
        ("/api/tokens", ["x"], 400, "a JSON object with a string 'text'"),
        ("/api/tasks/other", {"text": "x"}, 404, "No such task: 'other'"),
        ("/api/other", {"text": "x"}, 404, "not found"),
    ],
)
def test_bad_requests_are_refused(client, path, body, status, message):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert message in response.get_json()["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Expecting value: line 1"),
        (b'{"text": "a",}', "line 1 column 1[34]"),
        ('{"text": "é"}'.encode("latin-1"), "'utf-8' codec can't decode byte 0xe9"),
    ],
)
def test_invalid_json_is_located(client, body, message):
    response = client.post("/api/tokens", data=body, content_type="application/json")
    assert response.status_code == 400
    assert re.search(message, response.get_json()["error"])


def test_only_json_is_read(client):
    """A form of another site cannot ask."""
    assert client.post("/api/tokens", data={"text": "x"}).status_code == 415


def test_half_an_emoji_is_no_token(client):
    response = client.post("/api/tokens", json={"text": "\ud83d w1"})
    assert [each["token"] for each in response.get_json()["tokens"]] == ["w1"]


def test_models_of_the_wrong_kind_are_refused(demo_config, tmp_path):
    swapped = DemoConfig(discriminator=demo_config.generator)
    with pytest.raises(UserError, match=r"--discriminator: .* expected .*replaced_probability"):
        create_app(swapped)
    with pytest.raises(UserError, match="not an export of a fine-tuned task"):
        create_app(DemoConfig(tasks={"x": demo_config.generator}))
    with pytest.raises(UserError, match="contains no version"):
        create_app(DemoConfig(discriminator=tmp_path))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model_float32.tflite").touch()
    with pytest.raises(UserError, match=r"/1 is not a SavedModel.*--format=saved_model"):
        create_app(DemoConfig(discriminator=tmp_path))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Nothing to show"),
        ({"tasks": {"a": pathlib.Path("a")}, "port": 70_000}, "--port must be in"),
        ({"tasks": {"a": pathlib.Path("a")}, "host": ""}, "--host is empty"),
        ({"tasks": {"a": pathlib.Path("a")}, "max_characters": 0}, "--max_characters"),
        ({"tasks": {"a": pathlib.Path("a")}, "request_seconds": 0}, "--request_seconds"),
        ({"tasks": {"a": pathlib.Path("a")}, "allowed_hosts": ["a:1"]}, "--allowed_hosts"),
        (
            {"tasks": {"a": pathlib.Path("a")}, "generator": pathlib.Path("g")},
            "requires --discriminator",
        ),
    ],
)
def test_values_that_cannot_be(given, message):
    with pytest.raises(UserError, match=message):
        DemoConfig(**given)


def test_the_page_is_local_unless_told_otherwise():
    tasks = {"a": pathlib.Path("a")}
    assert DemoConfig(tasks=tasks).host == "127.0.0.1"
    assert DemoConfig(tasks=tasks).is_local
    assert DemoConfig(tasks=tasks, host="::1").is_local
    assert not DemoConfig(tasks=tasks, host="0.0.0.0").is_local


def test_messages_are_printed_at_once(capsys):
    _print_now("http://localhost:8000")
    assert capsys.readouterr().out == "http://localhost:8000\n"


def test_exports_without_a_described_tokenizer_are_not_compared():
    ours = TokenizerDescription(vocab_sha256="ours")
    for pair in ((ours, None), (None, ours)):
        _require_same_tokenizer(*(types.SimpleNamespace(tokenizer=each) for each in pair))


def test_a_choice_may_have_other_separators_of_lines_than_newlines():
    assert _lines("choices", "a\u2028b\r\nc\x0bd\n\n") == ["a\u2028b", "c\x0bd"]
