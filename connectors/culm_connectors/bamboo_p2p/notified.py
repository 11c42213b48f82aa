"""What another end has notified of without sending it: which entries and payloads, and their sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from culm_connectors.bamboo_p2p.interest import FollowedLog, is_wanted
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.requests.request import Request

_MOST_LOOKED_AT: Final = 10_000
"""So many payloads are looked at for one answer; who asks again looks on from what is lacking by then."""


@dataclass(slots=True)
class NotifiedTotals:
    """What one end has of a log, and what of that is not here.

    `height`: the highest entry that it has notified of. `bytes_known`: the size of those payloads that are
    not here and whose entries are; of `payloads_of_unknown_size` nothing more is known.
    """

    height: int = 0
    entries: int = 0
    payloads: int = 0
    new_entries: int = 0
    new_payloads: int = 0
    bytes_known: int = 0
    payloads_of_unknown_size: int = 0


def notifies_missing(request: Request, interest: FollowedLog, store: FolderStore) -> bool:
    """Whether the other end has passed something that is wanted, and not here."""
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
            held = store.entry(request.log, number)
            size = held.entry.payload_size if held is not None else 0
            if held is None or (
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
    """Count what the other end has passed. Of ranges that overlap, what is in both is counted twice."""
    log: LogKey = request.log
    entries, payloads = store.entries(log), store.payloads(log)
    looked_at = 0
    for first, last in _entry_runs(request):
        totals.height = max(totals.height, last)
        totals.entries += last - first + 1
        held = sum(
            min(end, last + 1) - max(start, first) for start, end in entries if start <= last and end > first
        )
        totals.new_entries += last - first + 1 - held
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
                # Of a run of unknown entries nothing is known one by one.
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
            found = store.entry(log, number)
            if found is not None and is_wanted(interest, number, found.entry.payload_size):
                totals.new_payloads += 1
                totals.bytes_known += found.entry.payload_size
            number += 1


def _entry_runs(request: Request) -> list[tuple[int, int]]:
    """Entries whose metadata the other end has passed, as first and last numbers."""
    return request.other_passed.entries(request.sequence)


def _payload_runs(request: Request) -> Iterator[tuple[int, int]]:
    """Entries whose payloads the other end has passed."""
    return request.other_passed.payloads(request.sequence)
