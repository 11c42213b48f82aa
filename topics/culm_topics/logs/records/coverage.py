"""`holdings` and `coverage`: what a peer, or the deployment, is known to hold of a log: sets, not heights.

A record of `holdings` says what is new, one of `coverage` how it stands. A set is written as runs in one flat
list, start and end by turns: a run ends one above its last number. Runs ascend and never touch, so the list
ascends strictly and a set has one spelling only. The number 2^64 - 1 has no end that fits, so no list can
name it.
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
from culm_topics.records.kinds import Kind, kind_of, rule, sized_between, where
from culm_topics.records.shape import MAX_UINT, require

Runs = tuple[tuple[int, int], ...]
"""((start, end), ...) from 1 on, each end exclusive; ascending and never touching."""


def runs_kind(maximum: int, together: str) -> Kind:
    """The kind of at most so many runs; `together` ends the comment of its CDDL."""
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
    """What a record can say of the runs of a `RangeSet`: without 0, which no entry is, and 2^64 - 1."""
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
"""Runs of one record, all lists together; writers split."""

_HoldingRuns = Annotated[Runs, runs_kind(MAX_HOLDING_RUNS, "in a record, all lists together")]


@record("holdings", "what a peer is newly known to hold of one log. Key: peer id (32 bytes).")
class HoldingRecord(Record):
    """Value of `holdings`; its key is the peer's id. `log_key` is that of `entries` and `logs`.

    Of a record the drops come last: a payload in both lists was dropped.
    """

    log_key: Annotated[bytes, sized_between(LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "of the log, as in `logs`"]
    entries: Annotated[_HoldingRuns, "entries that it holds"] = ()
    payloads: Annotated[_HoldingRuns, "payloads that it holds, by their entries' sequence numbers"] = ()
    payloads_dropped: Annotated[_HoldingRuns, "payloads that it held and holds no longer"] = ()

    def verify(self) -> None:
        """Raises `RecordError` where there are too many runs, or the key is none."""
        split_flavoured_log_key(self.log_key)
        count = len(self.entries) + len(self.payloads) + len(self.payloads_dropped)
        require(count <= MAX_HOLDING_RUNS, "holdings", f"more than {MAX_HOLDING_RUNS} runs")


def holding_records(
    log_key: bytes,
    entries: Iterable[tuple[int, int]] = (),
    payloads: Iterable[tuple[int, int]] = (),
    payloads_dropped: Iterable[tuple[int, int]] = (),
) -> Iterator[HoldingRecord]:
    """The records that say this, as many as it takes; none for nothing. Ranges as of a `RangeSet`."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, payloads_dropped)]
    if sum(map(len, lists)) <= MAX_HOLDING_RUNS:
        if any(lists):
            yield HoldingRecord(log_key, *lists)
        return
    for place, runs in enumerate(lists):
        for first in range(0, len(runs), MAX_HOLDING_RUNS):
            among: list[Runs] = [(), (), ()]
            among[place] = runs[first : first + MAX_HOLDING_RUNS]
            yield HoldingRecord(log_key, *among)


MAX_COVERAGE_RUNS: Final = 50_000
"""Runs of one list: three full ones are 2.7 MB, below the topic's message limit."""

_CoverageRuns = Annotated[Runs, runs_kind(MAX_COVERAGE_RUNS, "a list")]


@record(
    "coverage",
    "what a peer is known to hold of one log, as it stands. Key: peer id (32 bytes), log key (40 bytes, 41 "
    "of a YAMF log); under the all-zero peer id the deployment.",
)
class CoverageRecord(Record):
    """Value of `coverage`; its key is peer id and log key.

    `provable`: the entries whose certificate pools are whole among `entries`. `left_out` runs found no room;
    they are above those that are here, so nothing is said of the numbers above a full list's end.
    """

    entries: Annotated[_CoverageRuns, "entries that it holds"]
    payloads: Annotated[_CoverageRuns, "payloads that it holds, by their entries' sequence numbers"]
    provable: Annotated[_CoverageRuns, "entries whose certificate pools are whole among those that it holds"]
    left_out: Annotated[int, "runs that the lists have no room for: the highest ones"] = 0


def coverage_record(
    entries: Iterable[tuple[int, int]],
    payloads: Iterable[tuple[int, int]],
    provable: Iterable[tuple[int, int]],
) -> CoverageRecord:
    """The record that says this, as far as it has room. Ranges as of a `RangeSet`."""
    lists = [clip_runs(ranges) for ranges in (entries, payloads, provable)]
    left_out = sum(max(0, len(runs) - MAX_COVERAGE_RUNS) for runs in lists)
    held, whole, proven = (runs[:MAX_COVERAGE_RUNS] for runs in lists)
    return CoverageRecord(held, whole, proven, left_out)


def coverage_key(peer_id: bytes, log_key: bytes) -> bytes:
    """The key of one peer's row for one log: 72 bytes, 73 of a YAMF log. Raises `RecordError`."""
    split_flavoured_log_key(log_key)
    return check_peer_key(peer_id) + log_key


def split_coverage_key(key: bytes | None) -> tuple[bytes, HashFlavour, LogKey]:
    """Peer id, flavour and (public_key, log_id); `RecordError` when the key is no row's."""
    flavour, log = split_flavoured_log_key(None if key is None else key[PEER_ID_SIZE:])
    return check_peer_key((key or b"")[:PEER_ID_SIZE]), flavour, log
