"""IDs of replicas, objects and fields: their text, their bytes, the keys of a store, blocks (reference 1.3).

An ID is a source (64 bits) and a progress: 40 bits of sequence number and 12 bits of offset, which is the
number of a field. A block is the changes of one source in 65,536 sequence numbers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import IdTextMalformed
from culm_models.chotki.zip import U64_MAX, pack_pair, unpack_pair

OFFSET_BITS: Final = 12
OFFSET_MAX: Final = (1 << OFFSET_BITS) - 1
PRO_MASK: Final = (1 << 52) - 1
"""The bits of a progress that are written."""
SEQUENCE_MAX: Final = (1 << 40) - 1
BLOCK_BITS: Final = 28
BLOCK_MASK: Final = (1 << BLOCK_BITS) - 1
"""The bits of a progress that distinguish the IDs of one block."""

OBJECT_KEY: Final = 0x4F
VECTOR_KEY: Final = 0x56
KEY_SIZE: Final = 18
"""The size of every key of a store in bytes: kind, source, progress, letter."""
GLOBAL_VECTOR_KEY: Final = b"V" + bytes(16) + b"V"
"""The key of the global vector, which covers the whole store."""

_TEXT: Final = re.compile(r"[0-9a-fA-F]*(?:-[0-9a-fA-F]*)*")
_SRC_TEXT_MAX: Final = 0xFFFFF
_SEQ_TEXT_MAX: Final = 0xFFFFFFFF
_PARTS_MAX: Final = 3


class Id(NamedTuple):
    """A source and a progress, ordered by both in this order."""

    src: int
    pro: int

    @property
    def seq(self) -> int:
        """The sequence number: the position of a packet among those of its source."""
        return self.pro >> OFFSET_BITS

    @property
    def off(self) -> int:
        """The offset: the number of a field of the object, or 0 for the object itself."""
        return self.pro & OFFSET_MAX

    def __str__(self) -> str:
        src = self.src if self.src <= U64_MAX >> 1 else self.src - U64_MAX - 1
        off = self.pro & OFFSET_MAX
        object_text = f"{src:x}-{self.pro >> OFFSET_BITS:x}"
        return f"{object_text}-{off:x}" if off else object_text

    @classmethod
    def make(cls, src: int, seq: int, off: int = 0) -> Id:
        """Return the ID of a sequence number and an offset."""
        return cls(src, seq << OFFSET_BITS | off)

    @classmethod
    def from_text(cls, text: str) -> Id:
        """Return the ID that a text is read as (`read_id_text`). Raises `IdTextMalformed` for `BAD_ID`."""
        id = read_id_text(text)
        if id == BAD_ID:
            raise IdTextMalformed(f"{text[:100]!r} is no ID: too many parts, or a part that is too large")
        return id

    @classmethod
    def unzip(cls, data: bytes, *, compat: Compat = Compat.DEFAULT) -> Id:
        """Decode an ID. A length that no pair has raises `PairLength`, or gives 0-0 with `Compat.GO`."""
        src, pro = unpack_pair(data, compat=compat)
        return cls(src, pro & PRO_MASK)

    def zip(self) -> bytes:
        """Return the bytes of the ID on the wire."""
        return pack_pair(self.src, self.pro & PRO_MASK)


ZERO_ID: Final = Id(0, 0)
BAD_ID: Final = Id(U64_MAX, U64_MAX)
"""The ID that the Go replica reads from an impossible text; nothing has this ID."""


def read_id_text(text: str) -> Id:
    """Parse ``src-seq``, ``src-seq-off`` or ``off`` in hex. Returns `BAD_ID` if the text is impossible.

    Reading stops at the first other character, so a text that does not begin with one of these forms is 0-0.
    """
    match = _TEXT.match(text)
    parts = (match.group() if match is not None else "").split("-", _PARTS_MAX)
    if len(parts) > _PARTS_MAX:
        return BAD_ID
    src, seq, off = ("0", "0", parts[0]) if len(parts) == 1 else (*parts, "0")[:3]
    # Digits beyond any limit need no conversion.
    numbers = [int(part.lstrip("0")[:17] or "0", 16) for part in (src, seq, off)]
    if numbers[0] > _SRC_TEXT_MAX or numbers[1] > _SEQ_TEXT_MAX or numbers[2] > OFFSET_MAX:
        return BAD_ID
    return Id.make(*numbers)


def block_of(id: Id) -> Id:
    """Return the first ID of the block of ``id``; it stands for the block."""
    return Id(id.src, id.pro & PRO_MASK & ~BLOCK_MASK)


def object_key(id: Id, letter: str) -> bytes:
    """Return the store key of a field, or of an object (letter O, C or Y) itself."""
    return b"O%b%b%b" % (
        id.src.to_bytes(8, "big"),
        (id.pro & PRO_MASK).to_bytes(8, "big"),
        letter.encode("latin-1"),
    )


def vector_key(block: Id) -> bytes:
    """Return the store key of the vector of the block that ``block`` belongs to."""
    return b"V%b%bV" % (block.src.to_bytes(8, "big"), (block.pro & PRO_MASK | BLOCK_MASK).to_bytes(8, "big"))


def split_object_key(key: bytes) -> tuple[Id, str]:
    """Return the ID and the letter of a field's key."""
    assert len(key) == KEY_SIZE and key[0] == OBJECT_KEY, "not the key of a field"
    return Id(int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:17], "big")), chr(key[17])


def split_vector_key(key: bytes) -> Id | None:
    """Return the block of a vector's key, or None for the global vector."""
    assert len(key) == KEY_SIZE and key[0] == VECTOR_KEY, "not the key of a vector"
    if key == GLOBAL_VECTOR_KEY:
        return None
    return block_of(Id(int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:17], "big")))
