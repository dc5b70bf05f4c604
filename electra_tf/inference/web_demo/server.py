"""HTTP server of the web demo: bounds the time and the number of requests."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from flask import Flask
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from electra_tf.util.errors import UserError

# Connections at once; a browser opens about six to load the page.
MAX_CONNECTIONS = 32
# Interval in which a server checks whether to stop, and a process whether a signal has arrived.
POLL_SECONDS = 0.1
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class PageServer(ThreadedWSGIServer):
    """A server with one thread per connection, and one request per connection.

    Args:
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
        app: the application.
        request_seconds: time to send a request, and to take its answer.

    Raises:
        UserError: the address is not available.
    """

    # Clients that wait for a thread.
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, app: Flask, request_seconds: float) -> None:
        handler = type("Handler", (_Handler,), {"timeout": request_seconds})
        super().__init__(host, port, app, handler)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def server_bind(self) -> None:
        """Binds the address; on failure, werkzeug would print the reason and exit."""
        host, port = self.server_address[:2]
        try:
            super().server_bind()
        except OSError as error:
            self.server_close()
            raise UserError(
                f"Cannot listen on --host={host} --port={port}: {error.strerror}"
            ) from error

    @contextlib.contextmanager
    def accepting(self) -> Iterator[threading.Event]:
        """Accepts connections until the end of the `with`; yields an event, set once it stops.

        It does so in another thread: here, a signal whose handler raises would close the
        connection that is being accepted, and its request would get no answer.
        """
        ended = threading.Event()
        errors: list[Exception] = []

        def accept() -> None:
            try:
                self.serve_forever(poll_interval=POLL_SECONDS)
            except Exception as error:  # raised in the thread that waits
                errors.append(error)
            finally:
                ended.set()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield ended
        finally:
            if not ended.is_set():  # it would wait for the loop to begin
                self.shutdown()
        if errors:
            raise errors[0]

    def finish_requests(self, seconds: float) -> int:
        """Waits for the requests in progress; returns how many are left after that time."""
        deadline = time.monotonic() + seconds
        left = [
            not self._free.acquire(timeout=max(0.0, deadline - time.monotonic()))
            for _ in range(MAX_CONNECTIONS)
        ]
        return sum(left)

    def process_request(self, request: socket.socket, client_address: Any) -> None:
        """Starts the thread of a connection; refuses those above the limit."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(1)
            request.sendall(_BUSY)
        self.shutdown_request(request)

    def process_request_thread(self, request: socket.socket, client_address: Any) -> None:
        """Handles a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(WSGIRequestHandler):
    """Handles one request, whose sender has `timeout` seconds in all.

    A socket's timeout would apply to each read, however few bytes it returns.
    """

    timeout: float

    def setup(self) -> None:
        """Prepares to read the request."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Input(self.connection))

    def handle(self) -> None:
        deadline = threading.Timer(self.timeout, self._stop_reading)
        deadline.daemon = True
        deadline.start()
        try:
            super().handle()
        finally:
            deadline.cancel()

    def _stop_reading(self) -> None:
        with contextlib.suppress(OSError):  # closed by the client
            self.connection.shutdown(socket.SHUT_RD)


class _Input(io.RawIOBase):
    """The bytes that a client sends, until a timeout or the client's end of the connection.

    Werkzeug keeps reading after it has answered. With the socket's own file, errors would then
    leave a file open until garbage collection, and some would log a traceback.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        if self._is_over:
            return 0
        try:
            return self._connection.recv_into(buffer)
        except (TimeoutError, ConnectionError):
            self._is_over = True
            return 0
