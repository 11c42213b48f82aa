"""The status socket of a running process: a private Unix socket that answers with one JSON document.

A client connects, reads the document to its end, and sends nothing. Only the user who runs the process can
connect: the socket's mode is 0600. The socket belongs to one process and disappears when that process stops.
If the process was killed, its file stays, and the next process replaces it.

A thread serves the clients, so that a process answers even if its event loop hangs. The document is computed
when a client connects, in that thread. The module is here because jobs and connectors share no other package.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import selectors
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from culm_topics.errors import TopicsError

logger = logging.getLogger(__name__)

FORMAT: Final = 1
"""Format number of the documents; a reader refuses other numbers."""
MAX_CLIENTS: Final = 8
"""Clients that are served at the same time; further ones wait in the kernel's queue."""
CLIENT_TIMEOUT_S: Final = 5.0
"""A client that has not read the document after this time is disconnected."""
MAX_DOCUMENT_BYTES: Final = 1 << 22
CONNECTOR_SOCKET: Final = "status.sock"
"""Name of the status socket in a connector's directory."""

_MAX_ADDRESS_BYTES: Final = 107
"""Longest path in the address of a Unix socket on Linux, without the terminating zero."""
_BACKLOG: Final = 16
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group at the other end of a Unix socket."""
_READ_BYTES: Final = 65_536
_RETRY_S: Final = 0.05

Document = Callable[[], Mapping[str, Any]]
"""Returns the current document; called in the server's thread."""


class StatusSocketError(TopicsError, code="topics.status_socket"):
    """A status socket cannot be opened, or its answer is not a status document."""


class NothingRuns(StatusSocketError, code="topics.status_socket.absent"):
    """No process serves the socket: there is no file, or the process that created it has ended."""


@contextlib.contextmanager
def status_socket(path: Path, document: Document) -> Iterator[bool]:
    """Serve the document while the context is open; yields whether it is served.

    A process does its work without a status socket, too: if the socket cannot be opened, or another process
    serves it, the reason is logged.
    """
    try:
        server = _Server(path, document)
    except (StatusSocketError, OSError) as error:
        logger.warning("this process has no status socket: %s", error)
        yield False
        return
    try:
        yield True
    finally:
        server.close()


def is_served(path: Path) -> bool:
    """Return whether a process accepts connections at the path."""
    try:
        _connect(path, CLIENT_TIMEOUT_S).close()
    except NothingRuns:
        return False
    return True


class _Server:
    """One status socket and its thread.

    Raises `OSError` if the socket cannot be opened, `StatusSocketError` if another process serves it.
    """

    def __init__(self, path: Path, document: Document) -> None:
        self._path = path
        self._document = document
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket, self._inode = _listen(path)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._thread = threading.Thread(target=self._serve, name="status-socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Remove the socket, and disconnect the clients."""
        with contextlib.suppress(OSError):
            # Another process may have replaced the file meanwhile.
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        self._wake.close()
        self._thread.join()
        for closed in (*self._clients, self._socket, self._woken):
            closed.close()
        self._selector.close()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._timeout_s()):
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._socket:
                    self._accept()
                else:
                    self._send(self._clients[key.fileobj])  # type: ignore[index]
            now_s = time.monotonic()
            for client in tuple(self._clients.values()):
                if now_s >= client.deadline_s:
                    self._drop(client)

    def _timeout_s(self) -> float | None:
        """Return the time until the next deadline of a client; None without clients."""
        deadline_s = min((client.deadline_s for client in self._clients.values()), default=None)
        return None if deadline_s is None else max(0.0, deadline_s - time.monotonic())

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # the client has left, or there is no free file descriptor
            time.sleep(_RETRY_S)
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RD)
        self._clients[connection] = _Client(connection, self._encoded())
        self._selector.register(connection, selectors.EVENT_WRITE)
        if len(self._clients) == MAX_CLIENTS:
            self._selector.unregister(self._socket)

    def _encoded(self) -> memoryview:
        try:
            encoded = json.dumps(self._document(), default=str).encode()
        except Exception:
            # A defect must not cost the process its other clients.
            logger.exception("the status document cannot be computed")
            encoded = b""
        return memoryview(encoded + b"\n")

    def _send(self, client: _Client) -> None:
        try:
            sent = client.connection.send(client.rest)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.rest = client.rest[sent:]
        if not client.rest:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._selector.unregister(client.connection)
        if len(self._clients) == MAX_CLIENTS:
            self._selector.register(self._socket, selectors.EVENT_READ)
        del self._clients[client.connection]
        client.connection.close()


class _Client:
    """One client, and the part of the document that it has not received yet."""

    def __init__(self, connection: socket.socket, document: memoryview) -> None:
        self.connection = connection
        self.rest = document
        self.deadline_s = time.monotonic() + CLIENT_TIMEOUT_S


def serving_process(path: Path, *, timeout_s: float = CLIENT_TIMEOUT_S) -> int:
    """Return the id of the process that serves the socket; 0 if it runs in another process namespace.

    The kernel answers, not the process. Raises `NothingRuns`, or `StatusSocketError`.
    """
    with _connect(path, timeout_s) as client:
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process_id: int = _CREDENTIALS.unpack(credentials)[0]
    return process_id


def _listen(path: Path) -> tuple[socket.socket, int]:
    """Return a listening socket at the path, and the number of its inode.

    The socket listens only once its mode is 0600, under a temporary name. The lock on the folder is for two
    processes that start at the same time.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    name = f".{secrets.token_hex(4)}"
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if is_served(path):
            raise StatusSocketError(f"another process serves {path}")
        listening.setblocking(False)
        listening.bind(_address(path.with_name(name), f"/proc/self/fd/{folder}/{name}"))
        try:
            os.chmod(name, 0o600, dir_fd=folder)
            listening.listen(_BACKLOG)
            inode = os.stat(name, dir_fd=folder).st_ino
            os.rename(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening, inode


def _address(path: Path, short: str) -> str:
    """Return an address for a path: the path itself, or a short one below /proc if the path is too long."""
    return str(path) if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES else short


def _connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect to a status socket. Raises `NothingRuns`, or `StatusSocketError` if it is not a socket."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout_s)
    try:
        # The descriptor also stands for a path that is too long for an address.
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                raise StatusSocketError(f"{path} is not a socket")
            _dial(client, _address(path, f"/proc/self/fd/{descriptor}"), timeout_s)
        finally:
            os.close(descriptor)
    except BaseException as error:
        client.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            raise NothingRuns(f"nothing is served at {path}") from error
        if isinstance(error, OSError):
            raise StatusSocketError(f"{path}: {error.strerror or 'no answer in time'}") from error
        raise
    return client


def _dial(client: socket.socket, address: str, timeout_s: float) -> None:
    """Connect, and wait while the kernel's queue of the listening socket is full. Raises `OSError`."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            client.connect(address)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def read_status(path: Path, *, timeout_s: float = CLIENT_TIMEOUT_S) -> dict[str, Any]:
    """Read the document of a status socket.

    Raises `NothingRuns`, or `StatusSocketError` if there is no answer in time or the answer is not a
    document of this format.
    """
    deadline_s = time.monotonic() + timeout_s
    received = bytearray()
    with _connect(path, timeout_s) as client:
        try:
            while part := client.recv(_READ_BYTES):
                received += part
                if len(received) > MAX_DOCUMENT_BYTES or time.monotonic() > deadline_s:
                    raise StatusSocketError(f"{path}: the answer does not end")
        except OSError as error:
            raise StatusSocketError(f"{path}: {error.strerror or 'no answer in time'}") from error
    try:
        document = json.loads(received)
    except ValueError as error:
        raise StatusSocketError(f"{path}: the answer is not a JSON document") from error
    number = document.get("format") if isinstance(document, dict) else None
    if number != FORMAT:
        raise StatusSocketError(
            f"{path}: the format of the answer is {number!r}, not {FORMAT}",
            hint="use the same version of culm as the process that runs",
        )
    return dict(document)
