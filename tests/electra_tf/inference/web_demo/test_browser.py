"""The page in a real browser, headless Chromium: what scripts and styles make of it."""

import contextlib
import html
import pathlib
import re
import threading
import time
import urllib.parse

import flask
import pytest
from flask import Flask, Response

from electra_tf.inference.web_demo.app import _create_app, create_app
from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.inference.web_demo.server import PageServer
from tests import browser

pytestmark = pytest.mark.skipif(
    browser.CHROMIUM is None, reason="needs Chromium: apt-get install chromium"
)


@contextlib.contextmanager
def serving(app):
    """Yields the address of a page that is served meanwhile."""
    server = PageServer("127.0.0.1", 0, app, request_seconds=30)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def url(demo_config):
    with serving(create_app(demo_config)) as address:
        yield address


def browse(url: str, profile, *arguments: str, **texts: str) -> str:
    """Opens the page, which asks the models for texts in its address; returns its HTML."""
    address = f"{url}?{urllib.parse.urlencode(texts)}"
    return browser.browse(address, profile, "--virtual-time-budget=20000", *arguments).stdout


def acting(app: Flask, script: str) -> Flask:
    """Adds a script to the page, which does what a user would."""

    @app.get("/user.js")
    def user() -> Response:
        return Response(script, mimetype="text/javascript")

    @app.after_request
    def add(response: Response) -> Response:
        if response.mimetype == "text/html":
            page = response.get_data(as_text=True)
            tag = '<script src="/user.js" defer></script></head>'
            response.set_data(page.replace("</head>", tag))
        return response

    return app


def test_every_token_is_shaded_and_has_alternatives(url, tmp_path):
    page = browse(url, tmp_path, "--dump-dom", text="w1 w2 w3")
    tokens = re.findall(
        r'<span class="token(?: open)?" tabindex="0" data-probability="([\d.]+)" '
        r'style="background-color: rgba\(220, 38, 38, ([\d.]+)\);">(\w+)'
        r'<table dir="ltr">(.*?)</table>',
        page,
    )
    assert [token for *_, token, _ in tokens] == ["w1", "w2", "w3"]
    for probability, shade, _, table in tokens:
        assert float(probability) == pytest.approx(float(shade), abs=0.01)
        assert table.count("<tr>") == 4  # its own probability and three alternatives
    most_suspected = max(tokens, key=lambda found: float(found[0]))[2]
    assert re.search(rf'"token open"[^>]*>{most_suspected}<table dir', page)
    # The same text went to the task: its labels are text, whatever they look like.
    assert html.escape("<b>b</b>") in page
    assert "<b>b</b>" not in page


def test_the_browser_requests_only_files_that_exist(tmp_path):
    config = DemoConfig(tasks={"pick": pathlib.Path("pick")})
    app = _create_app(config, None, {"pick": PickSecond()})
    answers = {}

    @app.after_request
    def note(response: Response) -> Response:
        answers[flask.request.path] = response.status_code
        return response

    with serving(app) as address:
        browse(address, tmp_path, "--dump-dom")
    assert set(answers.values()) == {200}
    assert "/static/page.css" in answers


class PickSecond:
    """A task that chooses the second of the lines, and reads no more of the text."""

    tokenizer = None
    input_names = ("choices", "text")
    list_names = ("choices",)

    def answer(self, choices: str, text: str) -> dict:
        lines = choices.splitlines()
        scores = [0.125, 0.75, 0.125]
        answer = {"index": 1, "scores": scores, "choices": lines, "full": ["text"]}
        return {"kind": "multiple_choice", **answer}


def test_every_choice_has_its_share_and_the_best_is_marked(tmp_path):
    config = DemoConfig(tasks={"pick": pathlib.Path("pick")})
    app = _create_app(config, None, {"pick": PickSecond()})
    with serving(app) as url:
        choices = "w1\n<i>w2</i>\nw3"
        page = browse(url, tmp_path, "--dump-dom", text="w1", choices=choices)
    bars = re.findall(
        r'<div class="(bar[^"]*)"><span>(.*?)</span><meter value="(.*?)"></meter>'
        r"<span>(.*?)</span>",
        page,
    )
    assert bars == [
        ("bar", "w1", "0.125", "12.5 %"),
        ("bar best", "&lt;i&gt;w2&lt;/i&gt;", "0.75", "75.0 %"),
        ("bar", "w3", "0.125", "12.5 %"),
    ]
    assert ">The model reads no more of: text. What exceeds its length is ignored.<" in page
    assert 'class="error"' not in page


class ReadsArabic:
    """A discriminator, or a task of tagging, that finds two words whatever the text is."""

    tokenizer = None
    max_tokens = 9
    input_names = ("text",)
    list_names = ()
    words = ("\u0642\u0631\u0623", "\u0627\u0644\u0648\u0644\u062f")

    def inspect(self, text: str) -> list[dict]:
        tokens = ("[UNK]", *self.words)
        return [{"token": each, "probability": 0.5, "alternatives": []} for each in tokens]

    def answer(self, text: str) -> dict:
        return {"kind": "tagging", "words": self.words, "tags": ["O", "B-X"], "num_words": 2}


def test_rows_of_words_take_the_direction_of_their_first_letter(tmp_path):
    # Parts with a direction of their own, as the tables of tokens have, do not count.
    config = DemoConfig(discriminator=pathlib.Path("d"), tasks={"tags": pathlib.Path("t")})
    with serving(_create_app(config, ReadsArabic(), {"tags": ReadsArabic()})) as url:
        page = browse(url, tmp_path, "--dump-dom", text="w1")
    first, second = ReadsArabic.words
    unknown = r'<span [^>]*dir="ltr"[^>]*>\[UNK\]<table dir="ltr">.*?</table></span>'
    for row in (
        rf'<div class="tokens" dir="auto">{unknown}<span [^>]*>{first}<table dir="ltr">'
        rf".*?</table></span><span [^>]*>{second}<table",
        rf'<div class="tags" dir="auto"><span class="tag">{first}<small>O</small></span>'
        rf'<span class="tag">{second}<small>B-X</small></span></div>',
    ):
        assert re.search(row, page), page
    assert page.count('<textarea dir="auto"') == 2


class Inspector:
    """A discriminator whose tokens are the words of a text."""

    tokenizer = None
    max_tokens = 999

    def __init__(self) -> None:
        self._is_asked_again = threading.Event()

    def inspect(self, text: str) -> list[dict]:
        if text == "slow":
            self._is_asked_again.wait(20)
            time.sleep(0.5)
        if text == "fast":
            self._is_asked_again.set()
        alternatives = [{"token": "alternative" * 2, "probability": 0.1}]
        return [
            {"token": each, "probability": 0.5, "alternatives": alternatives}
            for each in text.split()
        ]


def inspector_page() -> Flask:
    return _create_app(DemoConfig(discriminator=pathlib.Path("d")), Inspector(), {})


def test_the_answer_is_that_of_the_last_request(tmp_path):
    script = """
        const [form] = document.forms;
        for (const text of ["slow", "fast"]) {
          form.elements.text.value = text;
          form.requestSubmit();
        }
    """
    with serving(acting(inspector_page(), script)) as url:
        page = browse(url, tmp_path, "--dump-dom")
    assert re.findall(r'<span class="token[^>]*>(\w+)<', page) == ["fast"]


def test_a_text_without_tokens_is_told(tmp_path):
    with serving(inspector_page()) as url:
        page = browse(url, tmp_path, "--dump-dom", text=" ")
    assert '<p class="hint">The text has no tokens.</p></div>' in page


def test_a_server_that_does_not_answer_is_told(tmp_path):
    app = inspector_page()
    app.before_request_funcs[None].append(
        lambda: Response(status=503) if flask.request.path == "/api/tokens" else None
    )
    with serving(app) as url:
        page = browse(url, tmp_path / "busy", "--dump-dom", text="w1")
    assert (
        '<p class="error">The server answered 503 SERVICE UNAVAILABLE. Try again.</p>' in page
    )
    script = """
        const [form] = document.forms;
        form.dataset.url = "http://127.0.0.1:1/";
        form.elements.text.value = "w1";
        form.requestSubmit();
    """
    with serving(acting(inspector_page(), script)) as url:
        page = browse(url, tmp_path / "stopped", "--dump-dom")
    assert (
        '<p class="error">The server does not answer. Is serve_demo.py still running?</p>'
        in page
    )


def test_no_table_of_a_token_exceeds_the_window(tmp_path):
    script = """
        setInterval(() => {
          const width = document.documentElement.clientWidth;
          for (const token of document.querySelectorAll(".token:not([data-over])")) {
            token.classList.add("open");
            token.dispatchEvent(new Event("pointerover", { bubbles: true }));
            token.classList.add("open");
            const { right, left } = token.querySelector("table").getBoundingClientRect();
            token.dataset.over = right > width + 1 || left < 0 || right === left;
            token.classList.remove("open");
          }
        }, 100);
    """
    for direction, word in (("ltr", "w1"), ("rtl", ReadsArabic.words[0])):
        with serving(acting(inspector_page(), script)) as url:
            page = browse(
                url,
                tmp_path / direction,
                "--window-size=500,900",
                "--dump-dom",
                text=f"{word} " * 40,
            )
        assert re.findall(r'data-over="(\w+)"', page) == ["false"] * 40


class LongWords:
    """A task whose labels have no spaces."""

    tokenizer = None
    input_names = ("text",)
    list_names = ()

    def answer(self, text: str) -> dict:
        labels = ["a" * 80, "b" * 80]
        return {
            "kind": "classification",
            "labels": labels,
            "label": labels[0],
            "scores": [0.9, 0.1],
        }


def test_long_labels_stay_in_their_column(tmp_path):
    script = """
        setInterval(() => {
          const over = (e) => e.scrollWidth > e.clientWidth || e.offsetWidth > 193;
          const names = [...document.querySelectorAll(".bar > span:first-child")];
          document.body.dataset.over = names.map(over);
        }, 100);
    """
    app = _create_app(DemoConfig(tasks={"a": pathlib.Path("a")}), None, {"a": LongWords()})
    with serving(acting(app, script)) as url:
        page = browse(url, tmp_path, "--dump-dom", text="w1")
    assert 'data-over="false,false"' in page


def test_what_is_typed_is_never_read_as_html(url, tmp_path):
    typed = "<img src=x onerror=alert(1)> w1"
    page = browse(url, tmp_path, "--dump-dom", text=typed)
    assert "<img" not in page
    assert html.escape(typed, quote=False) not in page.split('<div class="result"')[1]


def test_a_text_that_is_too_long_is_answered_by_an_error(url, tmp_path):
    page = browse(url, tmp_path, "--dump-dom", text="w1 " * 50)
    assert "<p class=\"error\">'text' has 150 characters; the limit is 100</p>" in page


def test_the_page_is_drawn(url, tmp_path):
    picture = tmp_path / "page.png"
    browse(url, tmp_path / "profile", f"--screenshot={picture}", text="w1 w2 w3")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 5000
