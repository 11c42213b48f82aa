"""The wanted part of a log, and the proposals for what is missing of it (R61).

It also compares what the other end has sent or announced (notified of) with what is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.certificate_pool import upper_pool
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Eagerness

_MAX_BACKFILLS: Final = 16
"""Number of payload gaps that are asked for at a time. A further sync asks for further gaps."""


_MOST_LOOKED_AT: Final = 10_000
"""Number of payloads that are looked up for one answer; after this their sizes count as unknown."""


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """A range of a log; with `end` None, up to its newest entry and all later ones. Payload sizes in bytes.

    `sparse`: only the shortest path between start and end. `payload_only`: only payloads of held entries.
    `mandatory`: a peer that does not have a payload must not continue without it. `again`: also payloads
    that were dropped here.
    """

    log: LogKey
    start: int = 1
    end: int | None = None
    sparse: bool = False
    payload_only: bool = False
    min_size: int = 0
    max_size: int = MAX_SIZE
    eagerness: Eagerness = Eagerness.ALL
    threshold: int | None = None
    direction: Direction = Direction.PULL
    mandatory: bool = False
    again: bool = False


def proposals(interest: FollowedLog, store: FolderStore) -> list[RequestedRange]:
    """Return what to ask a peer for: rests of payloads, missing payloads, entries from the first gap on."""
    if interest.direction is Direction.PUSH:
        return offers(interest)
    asked: list[RequestedRange] = []
    if interest.eagerness is Eagerness.ALL:
        asked += _resumed(interest, store)
        asked += _backfilled(interest, store)
    if not interest.payload_only:
        asked += _entries(interest, store)
    if interest.direction is Direction.BOTH:
        asked += offers(interest)
    return asked


def offers(interest: FollowedLog) -> list[RequestedRange]:
    """Return proposals that offer the held data. The other end only announces its own, against duplicates."""
    return [
        RequestedRange(
            *interest.log,
            interest.start,
            lower=1,
            end=interest.end,
            eagerness=Eagerness.NOTIFY,
            direction=Direction.BOTH,
        )
    ]


def first_missing(interest: FollowedLog, store: FolderStore) -> int:
    """Return the first sequence number whose entry or wanted payload is missing."""
    missing = store.end_of_held_entries(interest.log, interest.start)
    return min(missing, next(_missing_payloads(interest, store), missing))


def _entries(interest: FollowedLog, store: FolderStore) -> Iterator[RequestedRange]:
    start = interest.start
    if not interest.sparse and interest.eagerness is not Eagerness.NOTIFY:
        start = store.end_of_held_entries(interest.log, start)
    if interest.end is not None and start > interest.end:
        return
    ended = store.end_of_log(interest.log)
    if ended is not None and start > ended:
        return
    if not interest.sparse and not interest.again and interest.eagerness is Eagerness.ALL:
        # Dropped payloads are skipped: a request ends before them, and another one begins after them.
        for first, end in list(store.dropped(interest.log))[:_MAX_BACKFILLS]:
            if start < first and (interest.end is None or end <= interest.end):
                yield _range(interest, start, first - 1, upper=first - 1)
            start = max(start, end)
        start = store.end_of_held_entries(interest.log, start)
        if interest.end is not None and start > interest.end:
            return
    upper = None
    if interest.end is not None:
        # The pool that proves the end. It stays open for elements that do not exist yet.
        upper = upper_pool(interest.end)[-1]
    yield _range(interest, start, interest.end, upper=upper, sparse=interest.sparse)


def _resumed(interest: FollowedLog, store: FolderStore) -> Iterator[RequestedRange]:
    for seq_num, parts in store.partial_payloads(interest.log).items():
        stored = store.entry(interest.log, seq_num)
        offset = parts.end_of_run(0)
        if stored is not None and offset and is_wanted(interest, seq_num, stored.entry.payload_size):
            yield _range(interest, seq_num, seq_num, offset=offset)


def _backfilled(interest: FollowedLog, store: FolderStore) -> Iterator[RequestedRange]:
    """Yield proposals for runs of held entries whose wanted payloads are missing."""
    runs: list[list[int]] = []
    partial = store.partial_payloads(interest.log)
    for seq_num in _missing_payloads(interest, store):
        if partial.get(seq_num):
            continue
        if runs and runs[-1][1] + 1 == seq_num:
            runs[-1][1] = seq_num
        elif len(runs) < _MAX_BACKFILLS:
            runs.append([seq_num, seq_num])
        else:
            break
    for first, end in runs:
        yield _range(interest, first, end, payload_only=True)


def _missing_payloads(interest: FollowedLog, store: FolderStore) -> Iterator[int]:
    """Yield the held entries whose wanted payloads are missing, in order."""
    payloads, dropped = store.payloads(interest.log), store.dropped(interest.log)
    last = interest.end or store.highest_entry(interest.log)
    for start, end in store.entries(interest.log):
        seq_num = max(start, interest.start)
        while seq_num < min(end, last + 1):
            past = payloads.end_of_run(seq_num)
            if not interest.again:
                past = max(past, dropped.end_of_run(past))
            if past > seq_num:
                seq_num = past
                continue
            stored = store.entry(interest.log, seq_num)
            if stored is not None and is_wanted(interest, seq_num, stored.entry.payload_size):
                yield seq_num
            seq_num += 1


def is_wanted(interest: FollowedLog, seq_num: int, size: int) -> bool:
    """Whether the payload of an entry is wanted; `size` is the payload's, in bytes."""
    return (
        interest.min_size <= size <= interest.max_size
        and interest.start <= seq_num
        and (interest.end is None or seq_num <= interest.end)
    )


def _range(
    interest: FollowedLog,
    start: int,
    end: int | None,
    *,
    upper: int | None = None,
    offset: int | None = None,
    sparse: bool = False,
    payload_only: bool = False,
) -> RequestedRange:
    return RequestedRange(
        *interest.log,
        start,
        min_size=interest.min_size,
        max_size=interest.max_size,
        eagerness=interest.eagerness,
        threshold=interest.threshold,
        end=end,
        upper=upper,
        offset=offset,
        payload_only=payload_only,
        sparse=sparse,
        mandatory=interest.mandatory,
        direction=Direction.PULL,
    )


@dataclass(slots=True)
class NotifiedTotals:
    """Totals of what the other end has sent or announced of a log, and how much of it is missing here.

    `height`: the highest of these entries. `bytes_known`: total size of missing payloads whose entries are
    held. `payloads_of_unknown_size`: missing payloads whose size is not known.
    """

    height: int = 0
    entries: int = 0
    payloads: int = 0
    new_entries: int = 0
    new_payloads: int = 0
    bytes_known: int = 0
    payloads_of_unknown_size: int = 0


def notifies_missing(request: Request, interest: FollowedLog, store: FolderStore) -> bool:
    """Whether the other end has announced an entry or a wanted payload that is missing here."""
    entries, payloads = store.entries(request.log), store.payloads(request.log)
    dropped = store.dropped(request.log)
    looked_at = 0
    for first, last in _entry_runs(request):
        if not entries.covers(first, last + 1):
            return True
    for first, last in _payload_runs(request):
        number = first
        while number <= last and looked_at < _MOST_LOOKED_AT:
            past = max(payloads.end_of_run(number), dropped.end_of_run(number))
            if past > number:
                number = past
                continue
            stored = store.entry(request.log, number)
            size = stored.entry.payload_size if stored is not None else 0
            if stored is None or (
                is_wanted(interest, number, size)
                and (interest.threshold is None or size <= interest.threshold)
            ):
                return True
            looked_at += 1
            number += 1
    return False


def count_notified(
    request: Request, interest: FollowedLog, store: FolderStore, totals: NotifiedTotals
) -> None:
    """Add what the other end has sent or announced to `totals`. Items in overlapping ranges count twice."""
    log: LogKey = request.log
    entries, payloads = store.entries(log), store.payloads(log)
    looked_at = 0
    for first, last in _entry_runs(request):
        totals.height = max(totals.height, last)
        totals.entries += last - first + 1
        already_held = sum(
            min(end, last + 1) - max(start, first) for start, end in entries if start <= last and end > first
        )
        totals.new_entries += last - first + 1 - already_held
    for first, last in _payload_runs(request):
        totals.height = max(totals.height, last)
        totals.payloads += last - first + 1
        number = first
        while number <= last:
            past = payloads.end_of_run(number)
            if not interest.again:
                past = max(past, store.dropped(log).end_of_run(past))
            if past > number:
                number = past
                continue
            following = entries.next_member(number)
            if following != number:
                # The payload sizes of entries that are not held are unknown, so the run is counted at once.
                end = min(last + 1, following if following is not None else last + 1)
                totals.new_payloads += end - number
                totals.payloads_of_unknown_size += end - number
                number = end
                continue
            if looked_at >= _MOST_LOOKED_AT:
                totals.new_payloads += last + 1 - number
                totals.payloads_of_unknown_size += last + 1 - number
                break
            looked_at += 1
            stored = store.entry(log, number)
            if stored is not None and is_wanted(interest, number, stored.entry.payload_size):
                totals.new_payloads += 1
                totals.bytes_known += stored.entry.payload_size
            number += 1


def _entry_runs(request: Request) -> list[tuple[int, int]]:
    """Return the runs of entries that the other end has sent or announced, as first and last numbers."""
    return request.other_passed.entries(request.sequence)


def _payload_runs(request: Request) -> Iterator[tuple[int, int]]:
    """Yield the runs of payloads that the other end has sent or announced, as first and last numbers."""
    return request.other_passed.payloads(request.sequence)
