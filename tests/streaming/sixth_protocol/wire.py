"""Notes on the wire: lines of UTF-8, each ended by a line feed; those of an edge begin with a number."""

from __future__ import annotations

from typing import ClassVar, Final

from culm_models.conform.operation import ConformOperation
from culm_models.errors import ModelError, require

MAX_NOTE_BYTES: Final = 256
GREETING: Final = b"notes\n"
"""The first line that an edge says: over QUIC a caller learns by it that it was let in."""


class NoteRefused(ModelError):
    """A line has more than 256 bytes, or is not UTF-8."""

    code: ClassVar[str] = "notes.refused"


class NoteReader:
    """Cuts what comes in into notes."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> list[str]:
        """Return the notes that are whole now. Raises NoteRefused."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        longest = max(map(len, (*lines, self._rest)))
        require(longest <= MAX_NOTE_BYTES, NoteRefused, f"a note of {longest} bytes, not {MAX_NOTE_BYTES}")
        try:
            return [line.decode() for line in lines]
        except UnicodeDecodeError as error:
            raise NoteRefused(f"a note is not UTF-8: {error}") from error


def write_note(number: int, text: str) -> bytes:
    """Return a note as edges pass it on, with its number before it."""
    return f"{number} {text}\n".encode()


OPERATIONS: Final = (
    ConformOperation(
        "notes.read",
        "bytes",
        "notes",
        lambda _, arguments: {"notes": NoteReader().receive(arguments.octets("bytes"))},
    ),
)
