"""Requests that the server of the page refuses: of other names, too large, too slow."""

import contextlib
import dataclasses
import gc
import os
import pathlib
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from flask import Flask

from electra_tf.inference.web_demo import app as app_module
from electra_tf.inference.web_demo import server as server_module
from electra_tf.inference.web_demo.app import _create_app
from electra_tf.inference.web_demo.config import DemoConfig
from electra_tf.inference.web_demo.server import PageServer
from electra_tf.util.errors import UserError

CONFIG = DemoConfig(tasks={"a": pathlib.Path("a")}, max_characters=100, request_seconds=1.0)


class EchoTask:
    """Answers with the length of its text."""

    input_names = ("text",)
    list_names = ()

    def answer(self, text: str) -> dict[str, int]:
        return {"length": len(text)}


@contextlib.contextmanager
def serving(config: DemoConfig = CONFIG) -> Iterator[int]:
    """Serves the page and returns its port."""
    app = _create_app(config, None, {"a": EchoTask()})
    server = PageServer("127.0.0.1", 0, app, config.request_seconds)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.0.1", "Address already in use"),
        ("192.0.2.1", "Cannot assign requested address"),
        ("no.such.host.invalid", "Name or service not known|name resolution"),
    ],
)
def test_an_address_that_is_not_available(host, reason, capfd):
    """One message says why; it said "1", below what werkzeug printed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"Cannot listen on --host={host} --port={port}: ({reason})$"
        with pytest.raises(UserError, match=message):
            PageServer(host, port, Flask("page"), 1.0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_page_says_where_it_is_and_who_can_reach_it(host, monkeypatch):
    served, printed = [], []
    monkeypatch.setattr(app_module, "create_app", lambda config: Flask("page"))
    monkeypatch.setattr(
        PageServer, "serve_forever", lambda self, poll_interval: served.append(self)
    )
    app_module.serve(dataclasses.replace(CONFIG, host=host, port=0), printed.append)
    (server,) = served
    assert server.socket.fileno() == -1  # closed
    *warning, message = printed
    shown = "[::1]" if host == "::1" else host
    assert message == f"Serving: http://{shown}:{server.server_port}/ (Ctrl-C to stop)"
    assert len(warning) == (host == "0.0.0.0")


def test_an_error_that_ends_the_page_is_raised(monkeypatch):
    def fail(server: PageServer, poll_interval: float) -> None:
        raise OSError("no more files")

    monkeypatch.setattr(app_module, "create_app", lambda config: Flask("page"))
    monkeypatch.setattr(PageServer, "serve_forever", fail)
    with pytest.raises(OSError, match="no more files"):
        app_module.serve(dataclasses.replace(CONFIG, port=0), lambda message: None)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def answer(connection: socket.socket) -> str:
    """Returns what the server sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def request(body: str, length: int | None = None, host: str = "localhost") -> bytes:
    length = len(body) if length is None else length
    head = (
        f"POST /api/tasks/a HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    return (head + body).encode()


@pytest.mark.parametrize(
    ("host", "allowed", "header", "is_answered"),
    [
        ("127.0.0.1", (), "127.0.0.1:8080", True),
        ("127.0.0.1", (), "localhost:8080", True),
        ("127.0.0.1", (), "[::1]:8080", True),
        ("127.0.0.1", (), "evil.example:8080", False),
        ("127.0.0.1", (), "localhost.evil.example", False),
        ("127.0.0.1", (), "192.168.0.7", False),
        ("127.0.0.1", (), "localhost@evil.example", False),
        ("127.0.0.1", (), "", False),
        ("127.0.0.1", (), None, False),
        ("127.0.0.1", ("demo.example",), "Demo.Example:80", True),
        ("0.0.0.0", (), "192.168.0.7:8080", True),
        ("0.0.0.0", (), "evil.example", False),
        ("box.local", (), "box.local", True),
    ],
)
def test_names_under_which_the_page_is_served(host, allowed, header, is_answered):
    config = dataclasses.replace(CONFIG, host=host, allowed_hosts=allowed)
    assert config.allows(header) == is_answered
    client = _create_app(config, None, {"a": EchoTask()}).test_client()
    for send in (client.get, client.post):
        path = "/" if send == client.get else "/api/tasks/a"
        response = send(path, headers={"Host": header or ""})
        assert (response.status_code == 421) == (not is_answered)
    if not is_answered:
        assert "--allowed_hosts" in response.get_json()["error"]


def test_a_whole_request_is_answered():
    with serving() as port, connect(port) as connection:
        connection.sendall(request('{"text": "abc"}'))
        assert '{"length":3}' in answer(connection)


@pytest.mark.parametrize("start", [b"", b"POST /api/tasks/a HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_sender_that_stops_is_let_go(start):
    with serving() as port, connect(port) as connection:
        began = time.monotonic()
        connection.sendall(start)
        answer(connection)
        assert time.monotonic() - began < 5


def test_a_sender_that_drips_has_no_more_time():
    with serving() as port, connect(port) as connection:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            connection.sendall(request('{"text": "', length=60))
            while time.monotonic() - began < 2:
                connection.sendall(b"x")
                time.sleep(0.2)
        connection.settimeout(5)
        assert "408" in answer(connection).split("\r\n")[0]


def test_a_timeout_leaves_no_open_file_and_no_traceback(monkeypatch, caplog):
    """Of the two clocks, that of the socket strikes first."""
    monkeypatch.setattr(server_module._Handler, "_stop_reading", lambda self: None)
    config = dataclasses.replace(CONFIG, request_seconds=0.3)
    gc.disable()
    try:
        with serving(config) as port:
            for number in range(4):
                if number == 1:
                    before = len(os.listdir("/proc/self/fd"))
                with connect(port) as connection:
                    connection.sendall(request('{"text": "', length=60))
                    assert "408" in answer(connection).split("\r\n")[0]
                with connect(port) as connection:
                    connection.sendall(request('{"text": "', length=10**9))
                    assert "413" in answer(connection).split("\r\n")[0]
            deadline = time.monotonic() + 5
            while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
                time.sleep(0.05)
            assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        gc.enable()
    assert "Traceback" not in caplog.text


def test_large_requests_are_refused_before_they_are_read():
    with serving() as port, connect(port) as connection:
        connection.sendall(request('{"text": "', length=10**9))
        assert "413" in answer(connection).split("\r\n")[0]


def test_connections_above_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    with serving() as port, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(port)) for _ in range(2)]
        for connection in idle:
            connection.sendall(b"POST ")
        time.sleep(0.2)
        with connect(port) as third:
            assert "503" in answer(third)
        for connection in idle:
            answer(connection)
        with connect(port) as fourth:
            fourth.sendall(request('{"text": "abc"}'))
            assert '{"length":3}' in answer(fourth)


@pytest.mark.usefixtures("heeded_sigint")
@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGTERM, "Stopped by a signal"), (signal.SIGINT, "Stopped")],
)
def test_a_signal_does_not_close_a_connection_that_is_being_accepted(monkeypatch, number, said):
    answers, printed = [], []
    accept = PageServer.process_request

    def accept_at_signal(server: PageServer, request: socket.socket, address: object) -> None:
        accept(server, request, address)
        os.kill(os.getpid(), number)
        time.sleep(0.2)  # for the signal, if it is of this thread

    def ask() -> None:
        port = int(re.search(r":(\d+)/", printed[0])[1])
        with connect(port) as connection:
            connection.sendall(request('{"text": "abc"}'))
            answers.append(answer(connection))

    client = threading.Thread(target=ask)
    monkeypatch.setattr(PageServer, "process_request", accept_at_signal)
    monkeypatch.setattr(
        app_module, "create_app", lambda config: _create_app(config, None, {"a": EchoTask()})
    )

    def print_fn(message: str) -> None:
        printed.append(message)
        if message.startswith("Serving"):
            client.start()

    app_module.serve(dataclasses.replace(CONFIG, port=0, request_seconds=10.0), print_fn)
    client.join()
    assert '{"length":3}' in answers[0]
    assert printed[-1] == said


@pytest.mark.parametrize("request_seconds", [10.0, 0.1])
def test_a_termination_signal_ends_the_page_after_the_requests_that_were_begun(
    monkeypatch, request_seconds
):
    begun = threading.Event()
    answers, printed = [], []

    class SlowTask(EchoTask):
        def answer(self, text: str) -> dict[str, int]:
            begun.set()
            time.sleep(1.0)
            return super().answer(text)

    def ask() -> None:
        port = int(re.search(r":(\d+)/", printed[0])[1])
        with connect(port) as connection:
            connection.sendall(request('{"text": "abc"}'))
            answers.append(answer(connection))

    def ask_and_end() -> None:
        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(10)
        os.kill(os.getpid(), signal.SIGTERM)
        asking.join()

    client = threading.Thread(target=ask_and_end)
    monkeypatch.setattr(
        app_module, "create_app", lambda config: _create_app(config, None, {"a": SlowTask()})
    )

    def print_fn(message: str) -> None:
        printed.append(message)
        if message.startswith("Serving"):
            client.start()

    config = dataclasses.replace(CONFIG, port=0, request_seconds=request_seconds)
    app_module.serve(config, print_fn)
    client.join()
    if request_seconds > 1:
        assert '{"length":3}' in answers[0]
        assert printed[-1] == "Stopped by a signal"
    else:  # too slow
        assert printed[-1] == "Stopped by a signal; unanswered requests: 1"
