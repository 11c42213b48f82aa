"""Entries that a remote is missing, and the order of sending (specification "replication", 2.2)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.identifiers import SchemaId
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import LogHeight

SORTED_AT_ONCE: Final = 2_048
"""Number of logs that are sorted at once, which takes some ten milliseconds."""

_LAST: Final = 1_000


@dataclass(frozen=True, slots=True)
class EntryRange:
    """A part of a log to be sent in a session, both ends included, each entry as an `EntryMessage`."""

    session_id: int
    public_key: bytes
    log_id: int
    first_seq_num: int
    last_seq_num: int


def highest(log_heights: Iterable[LogHeight]) -> dict[LogKey, int]:
    """Return heights by log; for a log that is named twice, the higher one."""
    heights: dict[LogKey, int] = {}
    for public_key, log_id, seq_num in log_heights:
        key = (public_key, log_id)
        if heights.get(key, 0) < seq_num:
            heights[key] = seq_num
    return heights


def missing(
    session_id: int, held_heights: Iterable[LogHeight], remote_heights: Mapping[LogKey, int]
) -> list[EntryRange]:
    """Return the parts of held logs that a remote with these heights is missing, in their order."""
    parts: list[EntryRange] = []
    for public_key, log_id, seq_num in held_heights:
        remote_height = remote_heights.get((public_key, log_id), 0)
        if remote_height < seq_num:
            parts.append(EntryRange(session_id, public_key, log_id, remote_height + 1, seq_num))
    return parts


def in_order(store: LogStore, parts: Iterable[EntryRange]) -> list[EntryRange]:
    """Sort logs: system schemas first, and logs that create their document before all others.

    A remote that requires the preceding operations can then accept most of them in one pass. If logs of
    several authors refer to each other back and forth, it takes one session for each change of direction.
    """
    listed = list(parts)
    ranks = _ranks(store, listed)
    return [listed[number] for number in sorted(range(len(listed)), key=ranks.__getitem__)]


def in_slices(
    store: LogStore, schema_ids: Iterable[str], parts: Callable[[], Iterable[EntryRange]]
) -> Iterator[list[EntryRange]]:
    """Yield parts in the order of `in_order` if there are too many to sort at once.

    Each pass over `parts` selects the parts of one kind. A slice holds those among `SORTED_AT_ONCE` parts and
    may be empty, so that other remotes can be served after it.
    """
    kinds = {SchemaId.parse(schema).sort_key[0] for schema in schema_ids}
    ranks = sorted(2 * kind + follows for kind in kinds for follows in (0, 1))
    for rank in ranks:
        # Logs that are unknown to the store go with the last kind.
        wanted = {rank, _LAST} if rank == ranks[-1] else {rank}
        source = iter(parts())
        while listed := list(islice(source, SORTED_AT_ONCE)):
            listed_ranks = _ranks(store, listed)
            yield [part for part, its_rank in zip(listed, listed_ranks, strict=True) if its_rank in wanted]


def _ranks(store: LogStore, parts: Sequence[EntryRange]) -> list[int]:
    # A store may have given up a log since; none of its entries will be sent.
    return [
        _LAST if kind is None else 2 * SchemaId.parse(kind[0]).sort_key[0] + (not kind[1])
        for kind in store.log_kinds([(part.public_key, part.log_id) for part in parts])
    ]
