"""`holdings` and `coverage`: the sets that a peer, or the deployment, is known to hold of a log.

A record of `holdings` states what is new, a record of `coverage` the whole. A set is written as runs in one
flat list of alternating starts and ends: a run ends one above its last number. Runs ascend and never touch,
so the list ascends strictly and a set has only one representation. The number 2^64 - 1 has no end that fits,
so no list can contain it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Final

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import (
    LOG_KEY_SIZE,
    PEER_ID_SIZE,
    YAMF_LOG_KEY_SIZE,
    check_peer_key,
    split_flavoured_log_key,
)
from culm_topics.records.kinds import ItemKind, kind_of, rule, sized_between, where
from culm_topics.records.shape import MAX_UINT, require

Runs = tuple[tuple[int, int], ...]
"""((start, end), ...) from 1 on, each end exclusive; ascending and never touching."""


def runs_kind(maximum: int, together: str) -> ItemKind:
    """Return the kind of a list of at most `maximum` runs; `together` ends the comment of its CDDL."""
    note = (
        "Runs of sequence numbers: start, end, start, end ..., each end one above the last of its run; "
        f"ascending and never touching. At most {maximum:,} runs {together}."
    )
    kind = where(
        f"len({{x}}) <= {2 * maximum} and len({{x}}) % 2 == 0 and ascends({{x}})",
        f"a list of at most {maximum} starts and ends that ascend",
        ascends=_ascends,
        pairs=_pairs,
    )(
        replace(
            kind_of(tuple[int, ...]),
            cddl=f"[*{2 * maximum} 1..{MAX_UINT}]",
            sound="type({x}) is list and all([type(i) is int for i in {x}])",
            holds="",
            read="pairs({x})",
            write="[number for run in {x} for number in run]",
        )
    )
    return rule("runs", note)(kind)


def clip_runs(ranges: Iterable[tuple[int, int]]) -> Runs:
    """Restrict the runs of a `RangeSet` to the numbers of a record: without 0 and 2^64 - 1."""
    clipped = ((max(start, 1), min(end, MAX_UINT)) for start, end in ranges)
    return tuple((start, end) for start, end in clipped if start < end)


def _pairs(numbers: list[int]) -> Runs:
    one_by_one = iter(numbers)
    return tuple(zip(one_by_one, one_by_one, strict=True))


def _ascends(numbers: list[int]) -> bool:
    if numbers and not 1 <= numbers[0] <= numbers[-1] <= MAX_UINT:
        return False
    return all(low < high for low, high in pairwise(numbers))


MAX_HOLDING_RUNS: Final = 1_000
"""Limit of runs in one record, all lists together; writers split."""

_HoldingRuns = Annotated[Runs, runs_kind(MAX_HOLDING_RUNS, "in a record, all lists together")]


@record("holdings", "a change of what a peer holds of one log. Key: peer id (32 bytes).")
class HoldingRecord(Record):
    """Value of `holdings`; its key is the peer's id. `log_key` is that of `entries` and `logs`.

    Within a record the drops come last: a payload in both lists was dropped.
    """

    log_key: Annotated[bytes, sized_between(LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "of the log, as in `logs`"]
    entries: Annotated[_HoldingRuns, "entries that it holds"] = ()
    payloads: Annotated[_HoldingRuns, "payloads that it holds, by their entries' sequence numbers"] = ()
    payloads_dropped: Annotated[_HoldingRuns, "payloads that it no longer holds"] = ()

    def verify(self) -> None:
        """Raise `RecordError` if there are too many runs, or the key is malformed."""
        split_flavoured_log_key(self.log_key)
        count = len(self.entries) + len(self.payloads) + len(self.payloads_dropped)
        require(count <= MAX_HOLDING_RUNS, "holdings", f"more than {MAX_HOLDING_RUNS} runs")


def holding_records(
    log_key: bytes,
    entries: Iterable[tuple[int, int]] = (),
    payloads: Iterable[tuple[int, int]] = (),
    payloads_dropped: Iterable[tuple[int, int]] = (),
) -> Iterator[HoldingRecord]:
    """Yield the records for these ranges (as of a `RangeSet`), as many as necessary."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, payloads_dropped)]
    if sum(map(len, lists)) <= MAX_HOLDING_RUNS:
        if any(lists):
            yield HoldingRecord(log_key, *lists)
        return
    for index, runs in enumerate(lists):
        for first in range(0, len(runs), MAX_HOLDING_RUNS):
            among: list[Runs] = [(), (), ()]
            among[index] = runs[first : first + MAX_HOLDING_RUNS]
            yield HoldingRecord(log_key, *among)


MAX_COVERAGE_RUNS: Final = 50_000
"""Limit of runs in one list: three full lists are 2.7 MB, below the topic's message limit."""

_CoverageRuns = Annotated[Runs, runs_kind(MAX_COVERAGE_RUNS, "a list")]


@record(
    "coverage",
    "what a peer holds of one log. Key: peer id (32 bytes), log key (40 "
    "bytes, 41 of a YAMF log); under the all-zero peer id the deployment.",
)
class CoverageRecord(Record):
    """Value of `coverage`; its key is peer id and log key.

    `provable`: the entries whose certificate pools are complete in `entries`. `left_out` counts the runs that
    exceed the limit; they are above those in the lists, so numbers above a full list's end are unknown.
    """

    entries: Annotated[_CoverageRuns, "entries that it holds"]
    payloads: Annotated[_CoverageRuns, "payloads that it holds, by their entries' sequence numbers"]
    provable: Annotated[_CoverageRuns, "entries whose certificate pools it holds completely"]
    left_out: Annotated[int, "number of the highest runs, left out because the lists are full"] = 0


def coverage_record(
    entries: Iterable[tuple[int, int]],
    payloads: Iterable[tuple[int, int]],
    provable: Iterable[tuple[int, int]],
) -> CoverageRecord:
    """Return the record for these ranges (as of a `RangeSet`), cut at the limit."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, provable)]
    left_out = sum(max(0, len(runs) - MAX_COVERAGE_RUNS) for runs in lists)
    entry_runs, payload_runs, provable_runs = (runs[:MAX_COVERAGE_RUNS] for runs in lists)
    return CoverageRecord(entry_runs, payload_runs, provable_runs, left_out)


def coverage_key(peer_id: bytes, log_key: bytes) -> bytes:
    """Return the key of a peer's row for a log: 72 bytes, or 73 for a YAMF log. Raises `RecordError`."""
    split_flavoured_log_key(log_key)
    return check_peer_key(peer_id) + log_key


def split_coverage_key(key: bytes | None) -> tuple[bytes, HashFlavour, LogKey]:
    """Return peer id, flavour and (public_key, log_id). Raises `RecordError` if the key is malformed."""
    flavour, log = split_flavoured_log_key(None if key is None else key[PEER_ID_SIZE:])
    return check_peer_key((key or b"")[:PEER_ID_SIZE]), flavour, log
