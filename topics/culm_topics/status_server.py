"""The HTTP port of a job or a connector: Prometheus metrics, and whether the process is alive and ready.

`/metrics` is for Prometheus. `/livez` and `/readyz` are for Kubernetes and load balancers: they answer 200,
or 503 with one reason per line ("building the index"). The module is here because jobs and connectors share
no other package; it needs prometheus-client, which the extras `edge` and `streaming` install.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from culm_models.errors import CulmError

_TEXT = "text/plain; charset=utf-8"

Reasons = Callable[[], tuple[str, ...]]
"""Returns the reasons why a condition does not hold; empty if it holds."""


class PortError(Protocol):
    """Makes the caller's error for a port that cannot be opened; a class of errors with a hint is one."""

    def __call__(self, message: str, *, hint: str) -> CulmError:
        """Return the error to raise; `hint` says which option to change."""
        ...


@contextlib.contextmanager
def serve_status(
    host: str,
    port: int,
    registry: CollectorRegistry,
    *,
    why_not_ready: Reasons,
    why_not_alive: Reasons = tuple,
    port_error: PortError,
) -> Iterator[int]:
    """Serve while the context is open; yields the port, which the system chooses if `port` is 0.

    The reasons are computed in other threads. Without `why_not_alive`, a process that answers is alive.
    Raises the error that `port_error` makes if the port cannot be opened.
    """

    class Handler(BaseHTTPRequestHandler):
        """Answers three paths; every other path is not found."""

        timeout = 10

        def do_GET(self) -> None:
            """Answer a request."""
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path in ("/livez", "/live", "/healthz"):
                self._answer_probe(why_not_alive(), "ok")
            elif path in ("/readyz", "/ready"):
                self._answer_probe(why_not_ready(), "ready")
            else:
                self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /livez or /readyz\n")

        def _answer_probe(self, reasons: tuple[str, ...], otherwise: str) -> None:
            status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
            self._answer(status, _TEXT, ("\n".join(reasons or (otherwise,)) + "\n").encode())

        def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes arrive every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise port_error(
            f"metrics cannot be served on {host} port {port}: {error.strerror or error}",
            hint="give another --metrics-port, or 0 for a free one; a table in [job] gives each group a port",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="status-server", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
