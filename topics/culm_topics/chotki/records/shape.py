"""Items that several of Chotki's records share."""

from operator import lt
from typing import Annotated, Final, NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.rdx import check_value
from culm_topics.chotki.records.keys import EDGE_SIZE
from culm_topics.records.kinds import ItemKind, counted, named, rule, sized, sized_between, when_read

MAX_TEXT_BYTES: Final = 1_024
MAX_PARTITIONS: Final = 65_536


class RecordOrigin(NamedTuple):
    """Origin of a record: an edge (32 bytes), and the peer (its source) and the session that sent it.

    A record that an edge or a writer made itself has peer 0 and session 0.
    """

    edge: Annotated[bytes, sized(EDGE_SIZE), "the connector that wrote the record"]
    peer: Annotated[int, "the source of the peer that sent it; 0: the connector's own"]
    session: Annotated[int, "number of the session at that connector; 0: the connector's own"]


def _is_vector(tlv: bytes) -> bool:
    try:
        check_value("V", tlv)
    except ChotkiError:
        return False
    return True


def _by_partition(ends: list[list[int]]) -> bool:
    partitions = [partition for partition, _ in ends]
    return all(map(lt, partitions, partitions[1:]))


_COMPAT: Final = ItemKind(
    cddl='"go"',
    wanted="go, or left off",
    sound="({x} is ABSENT or {x} == 'go')",
    size="(0 if {x} is ABSENT else 3)",
    read="(Compat.DEFAULT if {x} is ABSENT else Compat.GO)",
    write="('go' if {x} is Compat.GO else ABSENT)",
    names={"Compat": Compat},
    may_end=True,
)
SomeCompat = Annotated[
    Compat,
    _COMPAT,
    "accepted with compat=go: a value may be malformed; it is merged as the Go replica merges it",
]
"""Compatibility mode of a value: the last item of a record, omitted with `Compat.DEFAULT`."""

Ends = tuple[tuple[int, int], ...]
"""(partition, offset after the last record), by partition."""

Vector = Annotated[
    bytes, when_read("is_vector({x})", "a version vector", is_vector=_is_vector), rule("vector", "TLV")
]
ShortText = Annotated[str, sized_between(0, MAX_TEXT_BYTES)]
SomeEnds = Annotated[
    tuple[Annotated[tuple[int, int], named("partition", "offset")], ...],
    when_read("by_partition({x})", "[partition, offset] of each, by partition", by_partition=_by_partition),
    counted(MAX_PARTITIONS),
    rule("offsets", "By partition."),
]
