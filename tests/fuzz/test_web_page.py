"""The endpoints of the web page on requests of any form."""

import json

import pytest
from hypothesis import strategies as st

from electra_tf.inference.web_demo.app import _create_app
from electra_tf.inference.web_demo.config import DemoConfig
from tests.fuzz.inputs import json_values, texts, tries

PATHS = (
    *(
        "/",
        "/api/tokens",
        "/api/tasks/topic",
        "/api/tasks/",
        "/api/tasks/a/b",
        "/api/tasks/%2e%2e",
    ),
    *("/static/page.js", "/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"),
    *("/static/..%2f..%2fapp.py", "/%00", "/api/tokens?text=a", "//api/tokens"),
)
HOSTS = (
    *("localhost", "127.0.0.1:80", "[::1]:80", "evil.example", "", "localhost.evil.example"),
    *(
        "127.0.0.1.nip.io",
        "localhost:x",
        "a@localhost",
        "LOCALHOST",
        "0",
        "[::1",
        "127.1",
        "\x7f",
    ),
)
LOCAL = {"localhost", "127.0.0.1:80", "[::1]:80", "LOCALHOST"}
TYPES = ("application/json", "text/plain", "application/x-www-form-urlencoded", "", 'a/b; c="')
BODIES = (
    *(b"", b"{", b"null", b"\xff\xfe", b"[" * 10_000, b'{"text":' * 3_000, b"9" * 5000, b"NaN"),
    *(
        b'{"text": "\\ud800"}',
        b'{"text": "a", "text": 1}',
        b"\0",
        b'{"text": "a"}' + b" " * 2000,
    ),
)


class FakeModel:
    """Answers with its text, so that what arrives can be compared."""

    input_names = ("text",)
    list_names = ()
    tokenizer = None
    max_tokens = 1000

    def answer(self, text):
        text.encode()
        return {"text": text}

    inspect = answer


@pytest.fixture(scope="module")
def client():
    config = DemoConfig(tasks={"topic": "unused"}, max_characters=1000)
    app = _create_app(config, FakeModel(), {"topic": FakeModel()})
    app.testing = True  # exceptions of the application are raised
    return app.test_client()


bodies = st.sampled_from(BODIES) | st.binary(max_size=30)
bodies |= json_values.map(lambda value: json.dumps(value).encode())
bodies |= (texts | json_values).map(lambda value: json.dumps({"text": value}).encode())


@tries(
    600,
    path=st.sampled_from(PATHS),
    method=st.sampled_from(
        ["POST", "POST", "POST", "GET", "PUT", "DELETE", "OPTIONS", "HEAD", "X"]
    ),
    host=st.sampled_from([*HOSTS, *["localhost"] * 10]),
    kind=st.sampled_from([*TYPES, *["application/json"] * 5]),
    body=bodies,
)
def test_requests(client, path, method, host, kind, body):
    response = client.open(
        path, method=method, headers={"Host": host}, data=body, content_type=kind
    )
    assert response.status_code < 500, response.get_data()[:200]
    if host not in LOCAL:
        assert response.status_code in (400, 421)
        assert b"def " not in response.get_data()
    if response.status_code >= 400 and method != "HEAD":
        assert list(response.get_json()) == ["error"]
    assert b"Traceback" not in response.get_data()
    assert b"import " not in response.get_data()
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    answered = response.status_code == 200 and path.startswith("/api") and method == "POST"
    if answered:
        assert kind == "application/json"
        given = json.loads(body)["text"]
        (answer,) = (response.get_json().get("tokens") or response.get_json()).values()
        assert answer == given.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:20]))
@pytest.mark.parametrize("path", ["/api/tokens", "/api/tasks/topic"])
def test_bodies(client, path, body):
    response = client.post(path, data=body, content_type="application/json")
    assert response.status_code in (200, 400, 413)
    assert response.get_json()
