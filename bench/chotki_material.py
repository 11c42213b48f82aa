"""Objects of Chotki for the cases, generated directly in the form that a replica would store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, ZERO_ID, Id, block_of, object_key, vector_key
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx import parse_vector, stamp, write_vector
from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_int

FIRST_OBJECT = 2
"""Sequence number of the first object; the class comes before it."""
FIELDS = (
    ("S", "Name", write_first(0, 0, b"tide table")),
    ("I", "Height", write_first(0, 0, pack_int(437))),
    ("S", "Note", write_first(0, 0, b"high water at noon")),
)
"""Letter, name and value of each field as in a packet, whose source the values take."""


def class_body() -> bytes:
    """Return what follows R in the packet of the class."""
    return write_class(
        [ClassField(number, letter, name) for number, (letter, name, _) in enumerate(FIELDS, 1)]
    )


def object_body() -> bytes:
    """Return what follows R in the packet of an object."""
    return b"".join(record(letter, value) for letter, _, value in FIELDS)


def class_id(src: int) -> Id:
    """Return the id of the class of all objects of a source."""
    return Id.make(src, FIRST_OBJECT - 1)


def last_entry(src: int, objects: int) -> int:
    """Return the entry of the source in vectors after so many objects."""
    return Id.make(src, FIRST_OBJECT + objects - 1, len(FIELDS)).pro


def fields(src: int, objects: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield store keys and values of the class and of so many objects, in the order of the keys."""
    yield object_key(class_id(src), "C"), class_body()
    class_bytes = class_id(src).zip()
    values = [
        (number, letter, stamp(letter, value, src)) for number, (letter, _, value) in enumerate(FIELDS, 1)
    ]
    for seq in range(FIRST_OBJECT, FIRST_OBJECT + objects):
        yield object_key(Id.make(src, seq), "O"), class_bytes
        for number, letter, value in values:
            yield object_key(Id.make(src, seq, number), letter), value


def block_vectors(src: int, objects: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and vectors of the blocks of these objects."""
    last = last_entry(src, objects)
    block = block_of(Id(src, 0))
    while block.pro <= last:
        end = Id(src, block.pro + (1 << 28))
        entry = last if last < end.pro else Id.make(src, end.seq - 1, len(FIELDS)).pro
        yield vector_key(block), write_vector({src: entry})
        block = end


def store(src: int, objects: int, *, name: str = "") -> dict[bytes, bytes]:
    """Return the store of a replica that has made so many objects."""
    content = fresh_store(src, name)
    vector = parse_vector(content[GLOBAL_VECTOR_KEY]) | {src: last_entry(src, objects)}
    content |= {**dict(fields(src, objects)), **dict(block_vectors(src, objects))}
    content[GLOBAL_VECTOR_KEY] = write_vector(vector)
    return content


def packets(src: int, objects: int) -> Iterator[tuple[int, bytes]]:
    """Yield the live packets that make the class and so many objects, each with its entry."""
    yield class_id(src).pro, write_live("C", class_id(src), ZERO_ID, class_body())
    body = object_body()
    for seq in range(FIRST_OBJECT, FIRST_OBJECT + objects):
        packet = write_live("O", Id.make(src, seq), class_id(src), body)
        yield Id.make(src, seq, len(FIELDS)).pro, packet


def edits(src: int, objects: int) -> Iterator[tuple[int, bytes]]:
    """Yield live packets without end, each an edit of one field, cycling through so many objects.

    Each comes with its entry; the sequence numbers follow those of the objects.
    """
    for number in itertools.count():
        id = Id.make(src, FIRST_OBJECT + objects + number)
        index, turn = number % objects, number // objects
        value = write_first(2 * (turn + 1), 0, pack_int(number))
        body = record("f", b"\x02") + record("I", value)
        yield id.pro, write_live("E", id, Id.make(src, FIRST_OBJECT + index), body)
