"""Bounded requests to targets: a status socket, or a path of an HTTP port. Each has its own time limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from culm_connectors.url import address_text
from culm_infra.console.overview.reading import NoReading

MAX_STATUS_BYTES: Final = 1 << 20
MAX_METRICS_BYTES: Final = 4 << 20
MAX_REASONS_BYTES: Final = 16_384
_MAX_HEAD_BYTES: Final = 16_384
_READ_BYTES: Final = 65_536


async def read_socket(path: Path, timeout_s: float) -> bytes:
    """Return the document of a status socket. Raises `NoReading`."""
    with _reported(timeout_s):
        async with asyncio.timeout(timeout_s):
            # The descriptor stands for any path: an address of a Unix socket is short.
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    raise NoReading("unknown", f"{path} is not a socket")
                opening = asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}", limit=_READ_BYTES)
                reader, writer = await opening
            finally:
                os.close(descriptor)
            async with _closed(writer):
                return await _read(reader, MAX_STATUS_BYTES)


async def get(host: str, port: int, path: str, max_bytes: int, timeout_s: float) -> tuple[int, bytes]:
    """Return the status and the body of `GET path`; no redirection is followed. Raises `NoReading`."""
    with _reported(timeout_s):
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, limit=_MAX_HEAD_BYTES)
            async with _closed(writer):
                # HTTP/1.0: the body is neither in chunks nor compressed.
                at = address_text(host, port)
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {at}\r\nAccept: text/plain\r\n\r\n".encode())
                await writer.drain()
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    raise NoReading("unknown", "the answer is not HTTP") from None
                status, size = _parse_head(head)
                return status, await _read(reader, max_bytes, size)


def _parse_head(head: bytes) -> tuple[int, int | None]:
    """Return the status, and the size of the body if the head has it."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdecimal()):
        raise NoReading("unknown", "the answer is not HTTP")
    for line in lines:
        name, _, value = line.partition(":")
        size = value.strip()
        if name.strip().lower() == "content-length" and size.isascii() and size.isdecimal():
            return int(code), int(size[:18])
    return int(code), None


async def _read(reader: asyncio.StreamReader, max_bytes: int, size: int | None = None) -> bytes:
    """Read to the end, or as many bytes as announced."""
    received = bytearray()
    while size is None or len(received) < size:
        part = await reader.read(_READ_BYTES)
        if not part:
            break
        received += part
        if len(received) > max_bytes:
            raise NoReading("unknown", f"the answer has more than {max_bytes} bytes")
    return bytes(received)


@contextlib.asynccontextmanager
async def _closed(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection at the end, without waiting for the other side."""
    try:
        yield
    finally:
        writer.transport.abort()


@contextlib.contextmanager
def _reported(timeout_s: float) -> Iterator[None]:
    """Turn errors of the network into `NoReading`."""
    try:
        yield
    except TimeoutError:
        raise NoReading("down", f"no answer within {timeout_s:g} s") from None
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoReading("down", _nothing_runs(error)) from None
    except PermissionError:
        raise NoReading("refused", "this user may not connect to the status socket") from None
    except ConnectionError:
        raise NoReading("unknown", "the connection was closed before there was an answer") from None
    except OSError as error:
        raise NoReading("down", error.strerror or str(error)) from None
    except UnicodeError:
        raise NoReading("down", "the name of the host is malformed") from None


def _nothing_runs(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "nothing runs: there is no status socket"
    return "nothing runs: no process accepts connections there"
