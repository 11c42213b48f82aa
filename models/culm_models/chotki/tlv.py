"""Records: a letter, a length and a body, in three forms (reference 1.1).

| form | header | body length | letter |
|---|---|---|---|
| tiny | a digit | 0 to 9 | lost: readers see 0 |
| short | lower case, a byte | 0 to 255 | kept |
| long | upper case, 4 bytes little-endian | 0 to 2^31 - 1 | kept |

Readers accept any form anywhere. `probe` reads one header, `spans` and `records` split complete data, and
`RecordReader` finds whole records in a stream without allocating memory for a length that a header announces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from culm_models.chotki.errors import ChotkiError, PacketMalformed, RecordMalformed, RecordTooLarge

TINY: Final = "0"
"""The letter with which a tiny record is read."""
TINY_MAX: Final = 9
SHORT_MAX: Final = 0xFF
LONG_MAX: Final = 0x7FFFFFFF
LONG_HEADER_SIZE: Final = 5
_LARGE: Final = 1 << 20

MALFORMED: Final = (0x2D, 0, 0)
INCOMPLETE: Final = (0, 0, 0)

_DIGITS: Final = tuple(bytes([0x30 + length]) for length in range(TINY_MAX + 1))
_LETTERS: Final = tuple(chr(code) for code in range(256))


def header(letter: str, length: int) -> bytes:
    """Return the header of a body of this length; lower case allows the tiny form, upper case does not."""
    assert 0 <= length <= LONG_MAX, "no record is as long"
    code = ord(letter)
    if code >= 0x61:
        if length <= TINY_MAX:
            return _DIGITS[length]
        code -= 0x20
    assert 0x41 <= code <= 0x5A, "the letters are A to Z"
    if length <= SHORT_MAX:
        return bytes((code + 0x20, length))
    return bytes((code,)) + length.to_bytes(4, "little")


def record(letter: str, *bodies: bytes) -> bytes:
    """Encode a record of these parts; the case of its letter matters as in `header`."""
    body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    return header(letter, len(body)) + body


def long_header(letter: str, length: int) -> bytes:
    """Return the long header, whatever the length."""
    assert 0 <= length <= LONG_MAX, "no record is as long"
    return letter.upper().encode("ascii") + length.to_bytes(4, "little")


def long_record(letter: str, *bodies: bytes) -> bytes:
    """Encode a record of these parts in the long form, whatever its length."""
    return long_header(letter, sum(map(len, bodies))) + b"".join(bodies)


def probe(data: bytes | bytearray | memoryview, at: int = 0) -> tuple[int, int, int]:
    """Read the header at ``at``: (letter's code, header length, body length). The body may be absent.

    Returns `INCOMPLETE` if the data ends inside the header and `MALFORMED` if no header begins there. A tiny
    record has the code of the digit 0.
    """
    if at >= len(data):
        return INCOMPLETE
    code = data[at]
    if 0x61 <= code <= 0x7A:
        return (code - 0x20, 2, data[at + 1]) if at + 1 < len(data) else INCOMPLETE
    if 0x30 <= code <= 0x39:
        return 0x30, 1, code - 0x30
    if 0x41 <= code <= 0x5A:
        if at + LONG_HEADER_SIZE > len(data):
            return INCOMPLETE
        length = int.from_bytes(data[at + 1 : at + LONG_HEADER_SIZE], "little")
        return (code, LONG_HEADER_SIZE, length) if length <= LONG_MAX else MALFORMED
    return MALFORMED


def spans(data: bytes, *, refuse: type[ChotkiError] | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield the whole records at the beginning of ``data`` as (letter's code, start and end of the body).

    At anything else it ends, or raises ``refuse``.
    """
    at, size = 0, len(data)
    while at < size:
        code = data[at]
        if 0x61 <= code <= 0x7A and at + 1 < size:
            # The usual form, without a call.
            code -= 0x20
            start = at + 2
            end = start + data[at + 1]
        else:
            code, header_length, length = probe(data, at)
            start = at + header_length
            end = start + length if header_length else size + 1
        if end > size:
            if refuse is not None:
                raise refuse(f"no whole record at byte {at} of {size}")
            return
        yield code, start, end
        at = end


def records(data: bytes) -> list[tuple[str, bytes]]:
    """Split ``data`` into records of letter and body. Raises `PacketMalformed` if anything is left over."""
    return [(_LETTERS[code], data[start:end]) for code, start, end in spans(data, refuse=PacketMalformed)]


class RecordReader:
    """Finds whole records in a stream of bytes that is split anywhere.

    Holds the bytes of at most one incomplete record and of the data fed last. A header that announces a body
    of more than ``max_record_bytes`` is refused before a byte of the body is kept. After an error the stream
    cannot be read further: every later call raises that error.
    """

    __slots__ = ("_buffer", "_failure", "_max_record_bytes", "_wanted")

    def __init__(self, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        self._buffer = bytearray()
        # The number of bytes that must be present before the next attempt can succeed.
        self._wanted = 1
        self._failure: ChotkiError | None = None

    @property
    def pending_bytes(self) -> int:
        """The number of bytes held of the record that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the records that ``data`` completes, header and body; exhaust it before the next call.

        Raises `RecordMalformed` or `RecordTooLarge` after the records before the error.
        """
        if self._failure is None:
            self._buffer += data
        return self._whole()

    def _whole(self) -> Iterator[bytes]:
        buffer = self._buffer
        at = 0
        try:
            while self._failure is None and len(buffer) - at >= self._wanted:
                code, header_length, length = probe(buffer, at)
                if header_length == 0:
                    if code:
                        self._failure = RecordMalformed(f"no header begins with the byte {buffer[at]:02x}")
                    else:
                        self._wanted = len(buffer) - at + 1
                    break
                if length > self._max_record_bytes:
                    self._failure = RecordTooLarge(
                        f"a record of {length} bytes, where {self._max_record_bytes} is the most"
                    )
                    break
                end = at + header_length + length
                if end > len(buffer):
                    self._wanted = end - at
                    break
                with memoryview(buffer) as view:
                    whole_record = bytes(view[at:end])
                at = end
                self._wanted = 1
                if length > _LARGE:
                    # A slow consumer should not hold the record in memory twice.
                    del buffer[:at]
                    at = 0
                yield whole_record
        finally:
            del buffer[:at]
        if self._failure is not None:
            buffer.clear()
            raise self._failure
