"""multistream-select 1.0: agreement between the two ends of a stream on its protocol. No I/O.

Every line is its length as a varint, a text and a newline. The side that opened the stream sends the header
and the protocol that it wants; the other side sends the header and repeats the protocol, or sends `na`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from culm_connectors.transport.libp2p import wire
from culm_connectors.transport.libp2p.errors import NegotiationError, WireError
from culm_models.varint import write_varint

HEADER = b"/multistream/1.0.0"
NOT_AVAILABLE = b"na"
LIST = b"ls"
MAX_LINE_BYTES = 1_024
MAX_PROPOSALS = 16
"""After this many rejected proposals the negotiation fails."""


def encode_line(text: bytes) -> bytes:
    """Encode one line."""
    return write_varint(len(text) + 1) + text + b"\n"


@dataclass(slots=True)
class LineReader:
    """Cuts received bytes into lines; what follows the last line that was taken stays in `rest`."""

    rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self.rest += data

    def take(self) -> bytes | None:
        """Return the next line without its newline; `None` if it is incomplete. Error: `NegotiationError`."""
        try:
            decoded = wire.decode_varint(self.rest)
        except WireError as error:
            raise NegotiationError(str(error)) from None
        if decoded is None:
            return None
        size, start = decoded
        if not 1 <= size <= MAX_LINE_BYTES:
            raise NegotiationError(f"a line of {size} bytes, at most {MAX_LINE_BYTES} are taken")
        if len(self.rest) < start + size:
            return None
        line = bytes(self.rest[start : start + size])
        if line[-1:] != b"\n":
            raise NegotiationError("a line does not end with a newline")
        del self.rest[: start + size]
        return line[:-1]


class Listening:
    """The answering side: feed it received bytes and write its answers until `agreed` is set."""

    def __init__(self, protocols: Collection[bytes]) -> None:
        self._protocols = protocols
        self._reader = LineReader()
        self._saw_header = False
        self._refused = 0
        self.agreed: bytes | None = None

    @property
    def rest(self) -> bytes:
        """The bytes received after the agreement, which belong to the protocol."""
        return bytes(self._reader.rest)

    def feed(self, data: bytes) -> bytes:
        """Process received bytes and return the bytes to write. Error: `NegotiationError`."""
        self._reader.feed(data)
        return b"".join(self._answers())

    def _answers(self) -> Iterator[bytes]:
        while self.agreed is None and (line := self._reader.take()) is not None:
            if not self._saw_header:
                if line != HEADER:
                    raise NegotiationError(f"the stream begins with {line[:80]!r}")
                self._saw_header = True
                yield encode_line(HEADER)
            elif line in self._protocols:
                self.agreed = line
                yield encode_line(line)
            elif self._refused == MAX_PROPOSALS:
                raise NegotiationError(f"none of {MAX_PROPOSALS} proposals is supported")
            else:
                self._refused += 1
                yield self._list() if line == LIST else encode_line(NOT_AVAILABLE)

    def _list(self) -> bytes:
        return encode_line(b"".join(encode_line(protocol) for protocol in sorted(self._protocols)))


class Proposing:
    """The side that opened the stream; it may use its one protocol before the answer arrives."""

    def __init__(self, protocol: bytes) -> None:
        self._reader = LineReader()
        self._expected = [HEADER, protocol]
        self.opening = encode_line(HEADER) + encode_line(protocol)
        """The bytes to write first."""

    @property
    def agreed(self) -> bool:
        """True if the remote has agreed."""
        return not self._expected

    def feed(self, data: bytes) -> None:
        """Process bytes of the answer. Error: `NegotiationError` if the remote does not agree."""
        self._reader.feed(data)
        while self._expected and (line := self._reader.take()) is not None:
            if line != self._expected[0]:
                raise NegotiationError(f"the remote answers {line[:80]!r}")
            del self._expected[0]
