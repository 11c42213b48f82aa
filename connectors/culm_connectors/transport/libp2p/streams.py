"""Streams after a negotiation: the protocol's bytes and offsets begin at the end of the negotiation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from culm_connectors.transport import CloseCode, Connection, ReceiveStream, SendStream
from culm_connectors.transport.errors import StreamStoppedError
from culm_connectors.transport.interface import Buffer


class FollowingSendStream:
    """Implements `SendStream`: offset 0 is the first byte after the negotiation.

    If the remote stops the stream, it cannot read our data, and no other stream carries it: the connection
    ends, so that the next connection starts afresh.
    """

    receive: ReceiveStream | None = None

    def __init__(self, stream: SendStream, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection
        self._start = stream.written

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        return self._stream.stream_id

    @property
    def written(self) -> int:
        """Bytes of the protocol written so far."""
        return self._stream.written - self._start

    @property
    def acknowledged(self) -> int:
        """All bytes of the protocol below this offset have reached the remote's QUIC stack."""
        return max(0, self._stream.acknowledged - self._start)

    async def write(self, data: Buffer) -> None:
        """Queue all of `data`, waiting while the send bound is reached."""
        with self._ending_with_the_stream():
            await self._stream.write(data)

    async def wait_acknowledged(self, offset: int) -> None:
        """Return once `acknowledged >= offset`."""
        with self._ending_with_the_stream():
            await self._stream.wait_acknowledged(self._start + offset)

    def finish(self) -> None:
        """End this direction."""
        self._stream.finish()

    def reset(self, code: int) -> None:
        """Abandon the stream."""
        self._stream.reset(code)

    @contextmanager
    def _ending_with_the_stream(self) -> Iterator[None]:
        try:
            yield
        except StreamStoppedError:
            self._connection.abort(CloseCode.PROTOCOL, "the stream that carries the protocol was stopped")
            raise


class FollowingReceiveStream:
    """Implements `ReceiveStream`: first what came with the end of the negotiation, then what follows."""

    send: SendStream | None = None

    def __init__(self, stream: ReceiveStream, first: bytes) -> None:
        self._stream = stream
        self._first = first

    @property
    def stream_id(self) -> int:
        """The number of the stream on its connection."""
        return self._stream.stream_id

    async def read(self, max_bytes: int = 65_536) -> bytes:
        """Take 1 to `max_bytes` bytes; `b""` at the orderly end."""
        if self._first:
            data, self._first = self._first[:max_bytes], self._first[max_bytes:]
            return data
        return await self._stream.read(max_bytes)

    def stop(self, code: int) -> None:
        """Ask the remote to stop; drop waiting data and data that still arrives."""
        self._first = b""
        self._stream.stop(code)
