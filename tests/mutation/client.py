"""Runs tests by `tests/mutation/server.py`; ends with pytest's exit status.

    python -m tests.mutation.client SOCKET [ARGUMENT OF PYTEST …]

Uses the standard library only, and starts in milliseconds.
"""

import json
import socket
import sys


def run(path: str, arguments: list[str]) -> tuple[int, str]:
    """Returns the exit status of pytest, negative for a signal, and its output."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(arguments).encode() + b"\n")
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    output, _, status = answer.decode(errors="replace").rstrip("\n").rpartition("\n")
    return int(status), output


if __name__ == "__main__":
    result, text = run(sys.argv[1], sys.argv[2:])
    print(text)
    sys.exit(result != 0)
