"""Requests to the page's server, and what must be answered."""

import contextlib
import json
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.faults.run_comparison import number_difference

MAX_CHARACTERS = 100
# Answers depend on the batch that they are computed in by no more than rounding.
TOLERANCE = 1e-5
BUSY = 503
_PATHS = ("/api/tokens", "/api/tasks/topic")
_CUT = (400, 404, 405, 408, 411, 415, 421, None)
_WORDS = ("w1", "w2", "w17", "w30", "old", "bridge", "river", "1895", "caf\u00e9", "\u6a4b")
_TIMEOUT = 120.0


class Answer(NamedTuple):
    """What a server answered: status, None if it closed the connection, body and time."""

    status: int | None
    body: bytes
    seconds: float


class Outcome(NamedTuple):
    """How a request went.

    Attributes:
        kind: of the request.
        status: as in `Answer`.
        seconds: how long it took.
        problem: what is wrong with the answer, if anything.
    """

    kind: str
    status: int | None
    seconds: float
    problem: str | None = None


def texts(count: int) -> list[str]:
    """Returns different texts, the same ones each time; the first has no word."""
    generator = random.Random(5)
    found = [""]
    while len(found) < count:
        words = generator.choices(_WORDS, k=generator.randint(1, 12))
        found.append(" ".join(words)[:MAX_CHARACTERS])
    return found


def post(path: str, body: str | bytes, *headers: str, length: int | None = None) -> bytes:
    """Returns a request of JSON."""
    content = body.encode() if isinstance(body, str) else body
    given = "\r\n".join(headers)
    names = given.lower()
    lines = [f"POST {path} HTTP/1.1"]
    lines += [] if "host:" in names else ["Host: localhost"]
    lines += [] if "content-type:" in names else ["Content-Type: application/json"]
    lines += [f"Content-Length: {len(content) if length is None else length}"]
    lines += [given] if given else []
    return "\r\n".join([*lines, "", ""]).encode() + content


def exchange(port: int, parts: Iterable[bytes], pause: float = 0.0) -> Answer:
    """Sends a request in parts, and reads until the server closes the connection."""
    start = time.monotonic()
    received = bytearray()
    with contextlib.suppress(OSError), _connect(port) as connection:
        with contextlib.suppress(OSError):
            for number, part in enumerate(parts):
                if number and pause:
                    time.sleep(pause)
                connection.sendall(part)
        while more := connection.recv(65536):
            received += more
    seconds = time.monotonic() - start
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else None
    return Answer(status, body, seconds)


def quiet_answers(port: int, count: int) -> dict[tuple[str, str], Any]:
    """Returns the answers to valid requests that are sent one after another."""
    found = {}
    for path in _PATHS:
        for text in texts(count):
            answer = exchange(port, [post(path, json.dumps({"text": text}))])
            if answer.status != 200:
                raise RuntimeError(f"{path} {text!r}: {answer}")
            found[path, text] = json.loads(answer.body)
    return found


def valid(
    port: int, expected: Mapping[tuple[str, str], Any], generator: random.Random
) -> Outcome:
    """Sends a valid request, and compares its answer with that of a quiet one."""
    (path, text), wanted = generator.choice([*expected.items()])
    answer = exchange(port, [post(path, json.dumps({"text": text}))])
    return _judge_valid("valid", answer, wanted)


def slow(
    port: int, expected: Mapping[tuple[str, str], Any], generator: random.Random
) -> Outcome:
    """Sends a valid request in small parts: in time, or never to its end."""
    (path, text), wanted = generator.choice([*expected.items()])
    content = post(path, json.dumps({"text": text}))
    third = len(content) // 3
    parts = [content[:third], content[third : 2 * third], content[2 * third :]]
    if generator.random() < 0.5:
        return _judge_valid("slow", exchange(port, parts, pause=0.1), wanted)
    cut = generator.randrange(len(content) - 1)
    # Cut headers are those of another request.
    return _judge("never whole", exchange(port, [content[:cut]]), _CUT)


def malformed(port: int, generator: random.Random) -> Outcome:
    """Sends what is no valid request."""
    path = generator.choice(_PATHS)
    name, content, allowed = generator.choice(_malformed(path, generator))
    return _judge("malformed", exchange(port, [content]), allowed, name)


def oversized(port: int, generator: random.Random) -> Outcome:
    """Sends too long a text, or announces or sends too many bytes."""
    path = generator.choice(_PATHS)
    kinds: Sequence[tuple[str, bytes, tuple[int | None, ...]]] = (
        ("a long text", post(path, json.dumps({"text": "x" * (MAX_CHARACTERS + 1)})), (400,)),
        ("announced bytes", post(path, '{"text": "', length=10**12), (413, None)),
        # The server closes the connection without reading, which may destroy its answer.
        ("many bytes", post(path, json.dumps({"text": "x" * 300_000})), (413, None)),
        ("a long header", post(path, "{}", "X: " + "y" * 100_000), (400, 431, None)),
    )
    name, content, allowed = generator.choice(kinds)
    return _judge("oversized", exchange(port, [content]), allowed, name)


def abandoned(
    port: int, expected: Mapping[tuple[str, str], Any], generator: random.Random
) -> Outcome:
    """Closes the connection before the answer, or in the middle of the request."""
    (path, text), _ = generator.choice([*expected.items()])
    content = post(path, json.dumps({"text": text}))
    start = time.monotonic()
    with contextlib.suppress(OSError), _connect(port) as connection:
        connection.sendall(content[: generator.randint(0, len(content))])
    return Outcome("abandoned", None, time.monotonic() - start)


def difference(expected: Any, actual: Any) -> str | None:
    """Says how an answer differs from the expected one, by more than rounding."""
    return number_difference(expected, actual, TOLERANCE)


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT)


def _malformed(
    path: str, generator: random.Random
) -> list[tuple[str, bytes, tuple[int | None, ...]]]:
    garbage = generator.randbytes(generator.randint(1, 200))
    get = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    return [
        ("no JSON", post(path, "{"), (400,)),
        ("no object", post(path, "[1, 2]"), (400,)),
        ("no text", post(path, '{"txt": "w1"}'), (400,)),
        ("a number", post(path, '{"text": 1}'), (400,)),
        ("nested", post(path, "[" * 2000), (400,)),
        ("no UTF-8", post(path, b'{"text": "\xff\xfe"}'), (400,)),
        ("a form", post(path, "text=w1", "Content-Type: text/plain"), (415,)),
        ("another path", post("/api/none", "{}"), (404,)),
        ("another task", post("/api/tasks/none", "{}"), (404,)),
        ("another method", get, (405,)),
        ("another host", post(path, "{}", "Host: evil.example"), (421,)),
        ("no length", post(path, "", length=-5), (400, 411, None)),
        ("garbage", b"\0" + garbage + b"\r\n\r\n", (400, 405, 408, 501, 505, None)),
    ]


def _judge(
    kind: str, answer: Answer, allowed: tuple[int | None, ...], what: str = ""
) -> Outcome:
    problem = None
    if answer.status not in (*allowed, BUSY):
        problem = f"{kind} {what}: status {answer.status}, not {allowed}: {answer.body[:200]!r}"
    return Outcome(kind, answer.status, answer.seconds, problem)


def _judge_valid(kind: str, answer: Answer, wanted: Any) -> Outcome:
    if answer.status == BUSY:
        return Outcome(kind, BUSY, answer.seconds)
    problem = None
    if answer.status != 200:
        problem = f"{kind}: status {answer.status}: {answer.body[:200]!r}"
    else:
        problem = difference(wanted, json.loads(answer.body))
    return Outcome(kind, answer.status, answer.seconds, problem)


# With their shares.
KINDS: Sequence[tuple[float, Callable[..., Outcome]]] = (
    (0.6, valid),
    (0.15, lambda port, expected, generator: malformed(port, generator)),
    (0.1, lambda port, expected, generator: oversized(port, generator)),
    (0.1, slow),
    (0.05, abandoned),
)
