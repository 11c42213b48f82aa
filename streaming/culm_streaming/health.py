"""Whether jobs are ready, in words, and the HTTP port that says so beside the metrics.

`/livez` answers 200 as long as the process serves. `/readyz` answers 200 while every query makes progress or
has nothing to do, else 503 with a reason a line: Kafka does not answer, a query waits for its next start, a
query stands still though there is something to read.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from culm_streaming.errors import StreamingError

_TEXT = "text/plain; charset=utf-8"


class Health:
    """The reasons why the process is not ready; written by whoever runs the jobs, read by any thread."""

    def __init__(self) -> None:
        self._reasons: tuple[str, ...] = ("starting",)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the jobs are not ready; empty when they are."""
        return self._reasons

    def set_reasons(self, *reasons: str) -> None:
        """Replace all reasons."""
        self._reasons = reasons


@contextlib.contextmanager
def serve_health(
    host: str, port: int, registry: CollectorRegistry, reasons: Callable[[], tuple[str, ...]]
) -> Iterator[int]:
    """Serve `/metrics`, `/livez` and `/readyz` while the context lasts; gives the port, which 0 leaves open.

    Raises `StreamingError` when the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers three paths; everything else is not found."""

        timeout = 10

        def do_GET(self) -> None:
            """Answer a request."""
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path in ("/livez", "/live", "/healthz"):
                self._answer(HTTPStatus.OK, _TEXT, b"ok\n")
            elif path in ("/readyz", "/ready"):
                found = reasons()
                status = HTTPStatus.SERVICE_UNAVAILABLE if found else HTTPStatus.OK
                self._answer(status, _TEXT, ("\n".join(found or ("ready",)) + "\n").encode())
            else:
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /livez or /readyz\n")

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes come every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise StreamingError(
            f"metrics cannot be served on {host}:{port}: {error.strerror or error}",
            hint="give another --metrics-port, or 0 for a free one",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
