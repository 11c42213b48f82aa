"""The HTTP port of a job or a connector: Prometheus metrics, and whether the process is alive and ready.

`/metrics` is for Prometheus: prometheus_client's own application answers it, compressed and in OpenMetrics if
the client accepts these. `/livez` and `/readyz` are for Kubernetes and load balancers: they answer 200, or
503 with one reason per line ("building the index"). The module is here because jobs and connectors share no
other package; it needs prometheus-client, which the extras `edge` and `streaming` install.

Every connection has a thread of its own, and there is a limit on both. Clients that send or read slowly
cannot use it up: a connection ends `REQUEST_TIMEOUT_S` after it began, and one above the limit ends the
oldest. Few requests collect metrics at a time, so that probes are answered meanwhile.
"""

from __future__ import annotations

import contextlib
import io
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import Any, Final, Protocol, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app

from culm_models.errors import CulmError

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 32
"""Limit of open connections, each of which has a thread."""
MAX_SCRAPES: Final = 2
"""Limit of requests that collect metrics at the same time; further ones wait, then they are refused."""
REQUEST_TIMEOUT_S: Final = 10.0
"""Limit of the time from accepting a connection to the end of its answer."""
_CHECK_INTERVAL_S: Final = 0.5
_MAX_WAIT_S: Final = 1.0
_TEXT: Final = "text/plain; charset=utf-8"

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
    request_timeout_s: float = REQUEST_TIMEOUT_S,
) -> Iterator[int]:
    """Serve while the context is open; yields the port, which the system chooses if `port` is 0.

    The reasons are computed in other threads. Without `why_not_alive`, a process that answers is alive.
    Raises the error that `port_error` makes if the port cannot be opened.
    """
    try:
        server = _Server(host, port, request_timeout_s)
    except OSError as error:
        raise port_error(
            f"metrics cannot be served on {host} port {port}: {error.strerror or error}",
            hint="give another --metrics-port, or 0 for a free one; a table in [job] gives each group a port",
        ) from error
    server.set_app(_application(registry, why_not_ready, why_not_alive))
    thread = threading.Thread(
        target=server.serve_forever, args=(_CHECK_INTERVAL_S,), name="status-server", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _application(
    registry: CollectorRegistry, why_not_ready: Reasons, why_not_alive: Reasons
) -> WSGIApplication:
    """Return the application that answers all paths."""
    metrics = make_wsgi_app(registry)
    scrapes = threading.BoundedSemaphore(MAX_SCRAPES)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/metrics":
            if not scrapes.acquire(timeout=REQUEST_TIMEOUT_S / 2):
                text = f"{MAX_SCRAPES} requests collect metrics already\n"
                return _answer(start_response, "503 Service Unavailable", text)
            try:
                answer: Iterable[bytes] = metrics(environ, start_response)
            except Exception:  # of whatever is measured; the next scrape may succeed
                logger.exception("the metrics cannot be collected")
                return _answer(start_response, "500 Internal Server Error", "see the log of the process\n")
            finally:
                scrapes.release()
            return answer
        if path in ("/livez", "/live", "/healthz"):
            status, text = _probe(why_not_alive(), "ok")
        elif path in ("/readyz", "/ready"):
            status, text = _probe(why_not_ready(), "ready")
        else:
            status, text = "404 Not Found", "/metrics, /livez or /readyz\n"
        if method not in ("GET", "HEAD"):
            status, text = "405 Method Not Allowed", "use GET or HEAD\n"
        return _answer(start_response, status, text, is_head=method == "HEAD")

    return application


def _probe(reasons: tuple[str, ...], otherwise: str) -> tuple[str, str]:
    status = "503 Service Unavailable" if reasons else "200 OK"
    return status, "\n".join(reasons or (otherwise,)) + "\n"


def _answer(
    start_response: StartResponse, status: str, text: str, *, is_head: bool = False
) -> Iterable[bytes]:
    body = text.encode()
    start_response(status, [("Content-Type", _TEXT), ("Content-Length", str(len(body)))])
    return [] if is_head else [body]


class _Handler(WSGIRequestHandler):
    """Answers one request; the connection ends with it.

    Status, headers and a short body are sent at once: a process that ends cuts no answer to a probe.
    """

    wbufsize = 65_536

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: scrapes arrive every few seconds."""

    def get_stderr(self) -> TextIO:
        """Return where wsgiref writes the traceback of a client that reads too slowly: nowhere."""
        return io.StringIO()


class _Server(ThreadingMixIn, WSGIServer):
    """Accepts connections in the thread of `serve_forever`, and handles each in a thread of its own.

    Raises `OSError` if the port cannot be opened.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, request_timeout_s: float) -> None:
        self._request_timeout_s = request_timeout_s
        self._opened: dict[Any, float] = {}
        """Open connections, oldest first, with the monotonic times of their beginnings."""
        self._ending: set[Any] = set()
        """Those of them whose threads are about to end."""
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without looking up the name of the host, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a new thread. Above the limit, the oldest connection ends first."""
        with self._changed:
            if len(self._opened) >= MAX_CONNECTIONS:
                self._end(next((each for each in self._opened if each not in self._ending), None))
                self._changed.wait_for(lambda: len(self._opened) < MAX_CONNECTIONS, _MAX_WAIT_S)
            is_refused = len(self._opened) >= MAX_CONNECTIONS
            if not is_refused:
                self._opened[request] = time.monotonic()
        if is_refused:
            self.shutdown_request(request)
        else:
            request.settimeout(self._request_timeout_s)
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection whose thread ends."""
        super().shutdown_request(request)
        with self._changed:
            self._opened.pop(request, None)
            self._ending.discard(request)
            self._changed.notify()

    def service_actions(self) -> None:
        """End the connections whose time has passed, however much they still send or read."""
        with self._changed:
            begun_before_s = time.monotonic() - self._request_timeout_s
            for request, opened_s in self._opened.items():
                if opened_s < begun_before_s:
                    self._end(request)

    def server_close(self) -> None:
        """Close the socket, and end all connections."""
        super().server_close()
        with self._changed:
            for request in self._opened:
                self._end(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error of the process; those of connections are the clients' affair."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logger.warning("a request to the port of the metrics failed: %r", error)

    def _end(self, request: Any) -> None:
        """Wake the thread that reads or writes this connection, by an error or the end of the data."""
        if request is not None:
            self._ending.add(request)
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
