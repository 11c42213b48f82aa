"""A process's small HTTP port: Prometheus metrics, and whether it lives and is ready.

`/metrics` for Prometheus, `/live` answers 200 as long as the process serves, `/ready` 200 or 503 with the
state in a word ("building the index"), for load balancers and Kubernetes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from culm_connectors.errors import ConnectorError

_TEXT = "text/plain; charset=utf-8"


@contextlib.contextmanager
def serve_status(
    host: str, port: int, registry: CollectorRegistry, not_ready: Callable[[], str | None]
) -> Iterator[int]:
    """Serve while the context lasts; gives the port. `not_ready` says what is still missing, or None.

    Raises ConnectorError when the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers three paths; everything else is not found."""

        timeout = 10

        def do_GET(self) -> None:
            """Answer a request."""
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path in ("/live", "/healthz"):
                self._answer(HTTPStatus.OK, _TEXT, b"ok\n")
            elif path in ("/ready", "/readyz"):
                missing = not_ready()
                status = HTTPStatus.SERVICE_UNAVAILABLE if missing else HTTPStatus.OK
                self._answer(status, _TEXT, f"{missing or 'ready'}\n".encode())
            else:
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /live or /ready\n")

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent: scrapes are no news."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ConnectorError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="status-server", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
