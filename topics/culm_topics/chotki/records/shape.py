"""Items that several of Chotki's records have, each checked where it comes in.

As `culm_topics.records.shape` says, a value whose length is that of the shortest encoding is in the shortest
encoding; each function here gives its item's part of that length or raises `RecordError`.
"""

from typing import Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.rdx import check_value
from culm_topics.chotki.records.keys import EDGE_SIZE
from culm_topics.errors import RecordError
from culm_topics.records.shape import (
    bytes_size,
    choice_size,
    head_size,
    is_uint,
    refuse_item,
    text_size,
    uint_size,
)

MAX_TEXT_BYTES: Final = 1_024
MAX_PARTITIONS: Final = 65_536


class Bringer(NamedTuple):
    """Who brought something: an edge (32 bytes), and the peer (its source) and the session it had it from.

    What an edge or a writer made itself has peer 0 and session 0.
    """

    edge: bytes
    peer: int
    session: int


def item_text_size(record: str, name: str, item: object) -> int:
    """A text of at most 1,024 bytes."""
    if type(item) is not str or len(item.encode()) > MAX_TEXT_BYTES:
        refuse_item(record, name, item, f"a text of at most {MAX_TEXT_BYTES} bytes")
    return text_size(item)


def bringer_size(record: str, edge: object, peer: object, session: object) -> int:
    """The three items of a `Bringer`."""
    return (
        bytes_size(record, "edge", edge, EDGE_SIZE)
        + uint_size(record, "peer", peer)
        + uint_size(record, "session", session)
    )


def compat_items(compat: Compat) -> tuple[str, ...]:
    """The last item of a record about a value that does not parse: it is read as the Go replica reads it."""
    return (compat.value,) if compat is Compat.GO else ()


def compat_size(record: str, items: list[object]) -> int:
    """What `compat_items` gives."""
    return sum(choice_size(record, "compat", item, (Compat.GO.value,)) for item in items)


def read_compat(items: list[object]) -> Compat:
    """How a record with these last items is read, which `compat_size` has let through."""
    return Compat.GO if items else Compat.DEFAULT


def vector_size(record: str, name: str, item: object) -> int:
    """A version vector in TLV, as it stands in a store."""
    size = bytes_size(record, name, item)
    assert isinstance(item, bytes), "just looked at"
    try:
        check_value("V", item)
    except ChotkiError as error:
        raise RecordError(f"{record}: {name} is no version vector: {error}") from error
    return size


def ends_size(record: str, name: str, item: object) -> int:
    """Offsets by partition: a list of [partition, offset], by partition."""
    if type(item) is not list or len(item) > MAX_PARTITIONS:
        refuse_item(record, name, item, f"a list of at most {MAX_PARTITIONS} partitions")
    size, before = head_size(len(item)), -1
    for one in item:
        if type(one) is not list or len(one) != 2 or not is_uint(one[0]) or not is_uint(one[1]):
            refuse_item(record, name, one, "a partition and an offset")
        if one[0] <= before:
            refuse_item(record, name, item, "by partition")
        before = one[0]
        size += 1 + head_size(one[0]) + head_size(one[1])
    return size


Ends = tuple[tuple[int, int], ...]
"""(partition, offset behind the last record), by partition."""


def read_ends(items: list[list[int]]) -> Ends:
    """Offsets that `ends_size` has let through."""
    return tuple((partition, offset) for partition, offset in items)
