"""The page's server under load for a few seconds; `make soak` does so for minutes."""

import os
import threading

import pytest

from electra_tf.inference.web_demo.app import create_app
from electra_tf.inference.web_demo.server import PageServer
from tests.faults import serving
from tests.faults.serving_requests import difference

SECONDS = 2.0


@pytest.fixture
def port(demo_config):
    server = PageServer("127.0.0.1", 0, create_app(demo_config), serving.REQUEST_SECONDS)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_answers_under_load_are_those_of_quiet_requests(port):
    send = serving.page_sender(port)
    figures = serving.load(send, SECONDS, serving.CLIENTS, 1, os.getpid())
    assert figures["violations"] == []
    assert figures["requests"]["valid"] > 20
    assert set(figures["requests"]) >= {"malformed", "oversized", "slow", "abandoned"}
    assert figures["p99_ms"] >= figures["p50_ms"] > 0


def test_saved_models_answer_many_threads_as_they_answer_one(demo_config):
    send = serving.model_sender(demo_config.discriminator.parent)
    figures = serving.load(send, SECONDS / 2, serving.CLIENTS, 1, os.getpid())
    assert figures["violations"] == []
    assert figures["requests"]["valid"] > 20


def test_a_wrong_answer_is_found():
    answer = {"kind": "classification", "scores": [0.25, 0.75], "label": "a"}
    assert difference(answer, {**answer, "scores": [0.25, 0.75 + 1e-7]}) is None
    assert difference(answer, {**answer, "scores": [0.25, 0.7501]}) == "0.7501 instead of 0.75"
    assert difference(answer, {**answer, "label": "b"}) == "'b' instead of 'a'"
    assert difference(answer, {"kind": "classification"})
