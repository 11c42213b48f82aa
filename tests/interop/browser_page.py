"""A page in a real browser, headless: its origin is a server here, and what it saw comes back as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import pytest

VARIABLE = "CULM_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PAGES = Path(__file__).parents[1] / "dag_browser"
_TYPES = {".html": "text/html", ".mjs": "text/javascript", ".js": "text/javascript"}
_DEADLINE_S = 180.0
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
)


def browser() -> str:
    """Where a browser is; skips the test, with the reason, where there is none."""
    named = os.environ.get(VARIABLE)
    if named == "off":
        pytest.skip(f"{VARIABLE}=off: the door was tried with no browser")
    path = named or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip(
            f"no browser is installed ({', '.join(_NAMES)}): the door was tried with node and curl alone"
        )
    return path


@dataclass(frozen=True, slots=True)
class PageServer:
    """The origin of a page."""

    origin: str
    given: dict[str, Any]
    said: Queue[Any]


@contextlib.contextmanager
def serving(built: Path) -> Iterator[PageServer]:
    """Serve the page and the client's modules on loopback, at an origin of its own."""
    page_input: dict[str, Any] = {}
    reports: Queue[Any] = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, built, page_input, reports))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield PageServer(f"http://127.0.0.1:{server.server_address[1]}", page_input, reports)
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, built: Path, page_input: dict[str, Any], reports: Queue[Any], *arguments: Any) -> None:
        self._built, self._given, self._said = built, page_input, reports
        super().__init__(*arguments)

    def do_GET(self) -> None:
        name = Path(self.path).name
        if name == "given.json":
            return self._answer("application/json", json.dumps(self._given).encode())
        file = (self._built if self.path.startswith("/built/") else _PAGES) / name
        if not file.is_file():
            return self.send_error(404)
        return self._answer(_TYPES[file.suffix], file.read_bytes())

    def do_POST(self) -> None:
        self._said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer("text/plain", b"")

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing is printed."""


async def seen_in_browser(program: str, page: PageServer, profile: Path) -> dict[str, Any]:
    """Open the page, and wait for what it saw."""
    process = await asyncio.create_subprocess_exec(
        program,
        *_OPTIONS,
        f"--user-data-dir={profile}",
        f"{page.origin}/page.html",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        report: dict[str, Any] = await asyncio.to_thread(page.said.get, True, _DEADLINE_S)
    except Empty:
        pytest.fail(f"the page said nothing for {_DEADLINE_S:.0f} s")
    finally:
        # It has processes of its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    assert "error" not in report, report["error"]
    return report
