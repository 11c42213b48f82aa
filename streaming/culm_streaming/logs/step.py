"""One shard, one micro-batch: rows and state in, rows and state out. A plain function of its arguments.

A log that is simply continued, however many entries it grows by, is checked in array operations over all logs
at once; only a log with anything unusual (a gap, a fork, a wrong link) is passed to `validation` alone.
Repeats are dropped before that. The same rows and the same state give the same bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from culm_models.bamboo import decode_entry, hash_bytes
from culm_models.bamboo.hashes import PREFIX, YAMF
from culm_models.errors import CulmError
from culm_streaming.errors import BlockFullError, EarlyOverflowError, StateMissingError
from culm_streaming.logs.early import EarlyTotals, decode_early, hold_back
from culm_streaming.logs.log_table import EARLY, ENDED, TOTALS, LogTable
from culm_streaming.logs.rows import (
    END_OF_LOG,
    HAS_SKIPLINK,
    KEYLESS,
    READY,
    YAMF_LOG,
    Array,
    EntryRows,
    packed_hash,
    split_source,
    yamf_digest,
)
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.validation import Candidate, LogState, RowResults, fork, judge, simply_continued
from culm_streaming.progress import Waiting
from culm_streaming.stateful.job_state import JobState
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key, rejection, split_log_key

FetchFirst = Callable[[int, int], bytes | None]
"""Returns the entry bytes of the record at (partition, offset) of `entries`; None if it is gone."""


@dataclass(slots=True)
class LogsOutput:
    """Records to write, (key, value) each; a log's entries are in sequence order."""

    logs: list[tuple[bytes, bytes]] = field(default_factory=list)
    rejected: list[tuple[bytes, bytes]] = field(default_factory=list)
    waiting: Waiting | None = None
    """The shard's logs that wait for an earlier entry; None if none waits and none waited before."""


@dataclass(slots=True)
class _Refused:
    row: int
    error: CulmError
    first: bytes | None = None


def step(
    store: JobState, rows: EntryRows, settings: ChainSettings, fetch_first: FetchFirst, *, now_ms: int = 0
) -> LogsOutput:
    """Validate `rows` of one shard, append to the logs in `store`, and return the records to write.

    `now_ms` is kept for logs that begin to wait; no written record depends on it.
    """
    totals_before = store.load(TOTALS)
    totals = EarlyTotals(settings, store, now_ms)
    waited = totals.logs
    output = LogsOutput()
    rows = _without_ready(rows, output)
    if len(rows):
        _judge_rows(store, rows, output, settings=settings, fetch_first=fetch_first, totals=totals)
    totals_after = totals.encode()
    if totals_after != totals_before:
        store.save(TOTALS, (), totals_after)
    if waited or totals.logs:
        output.waiting = Waiting(totals.logs, totals.since_ms)
    return output


def _without_ready(rows: EntryRows, output: LogsOutput) -> EntryRows:
    """Add the ready-made records of `rejected` to `output`. Returns the other rows."""
    heads = rows.heads
    ready = (heads["flags"] & READY) != 0
    if not ready.any():
        return rows
    places = np.flatnonzero(ready)
    for row in places[np.argsort(heads["source"][places], kind="stable")].tolist():
        flags, key = int(heads["flags"][row]), heads["key"][row].tobytes()
        if flags & YAMF_LOG:
            key = log_key(*split_log_key(key), YAMF)
        output.rejected.append((b"" if flags & KEYLESS else key, rows.values[row]))
    entries = np.flatnonzero(~ready)
    return EntryRows(heads[entries], [rows.values[row] for row in entries.tolist()])


def _judge_rows(
    store: JobState,
    rows: EntryRows,
    output: LogsOutput,
    *,
    settings: ChainSettings,
    fetch_first: FetchFirst,
    totals: EarlyTotals,
) -> None:
    keys: list[bytes] = rows.heads["key"].tolist()
    block_of_key = dict(zip(keys, rows.heads["block"].tolist(), strict=True))
    log_table = LogTable(store, block_of_key, max_logs_per_block=settings.max_logs_per_block)
    rows, owners, waiting = _with_early(store, log_table, rows, keys)
    order = np.lexsort((rows.heads["source"], rows.heads["seq_num"], owners))
    owners, rows = owners[order], EntryRows(rows.heads[order], [rows.values[row] for row in order.tolist()])
    heads = rows.heads

    homeless = owners < 0
    refused = [
        _Refused(row, BlockFullError("too many logs share this log's block of state"))
        for row in np.flatnonzero(homeless).tolist()
    ]
    old = ~homeless & (heads["seq_num"] <= log_table.logs["height"][owners])
    refused += _forks(
        log_table,
        owners,
        heads,
        np.flatnonzero(old),
        fetch_first=fetch_first,
        max_fetches=settings.max_fetches,
    )

    above = _without_twins(owners, heads, np.flatnonzero(~homeless & ~old))
    accepted = simply_continued(log_table, owners[above], heads[above])
    for unusual in _runs(owners[above], ~accepted):
        places = above[unusual]
        results = _judge_log(log_table, int(owners[places[0]]), heads, places)
        accepted[unusual] = np.isin(places, np.array(results.accepted, np.int64))
        waiting[int(owners[places[0]])] = results.early
        refused += [
            _Refused(
                refusal.row,
                refusal.error,
                None if refusal.first is None else LogRecord.decode(rows.values[refusal.first]).entry,
            )
            for refusal in results.refused
        ]
    grown = above[accepted]
    log_table.append(owners[grown], heads[grown])
    refused += [
        _Refused(row, EarlyOverflowError(f"entry {heads['seq_num'][row]} came before its predecessors"))
        for row in hold_back(store, log_table, waiting, rows, totals=totals, settings=settings)
    ]
    log_table.save()

    values = rows.values
    written = [values[row] for row in grown.tolist()]
    grown_keys: list[bytes] = heads["key"][grown].tolist()
    for index in np.flatnonzero(heads["flags"][grown] & YAMF_LOG).tolist():
        grown_keys[index] = _yamf_log_key(LogRecord.decode(written[index]))
    output.logs += zip(grown_keys, written, strict=True)
    for refusal in sorted(refused, key=lambda refusal: refusal.row):
        head = heads[refusal.row]
        record = LogRecord.decode(values[refusal.row])
        value = _rejected_value(head, record, refusal.error, settings.entries_topic, first=refusal.first)
        key = _yamf_log_key(record) if head["flags"] & YAMF_LOG else head["key"].tobytes()
        output.rejected.append((key, value))


def _with_early(
    store: JobState, log_table: LogTable, rows: EntryRows, keys: list[bytes]
) -> tuple[EntryRows, Array, dict[int, list[int]]]:
    """Return the rows and their logs' early arrivals, each row's owner, and logs with early arrivals."""
    index = log_table.index
    owners = [index.get(key, -1) for key in keys]
    heads, values = [rows.heads], list(rows.values)
    waiting: dict[int, list[int]] = {}
    present = np.unique(np.array(owners, np.int64))
    present = present[present >= 0]
    for owner in present[log_table.logs["early_count"][present] > 0].tolist():
        blob = store.load(EARLY, log_table.logs["key"][owner].tobytes())
        if blob is None:
            raise StateMissingError("early arrivals of a log are missing")
        early = decode_early(blob)
        heads.append(early.heads)
        values += early.values
        owners += [owner] * len(early)
        waiting[owner] = []
    return EntryRows(np.concatenate(heads), values), np.array(owners, np.int64), waiting


def _without_twins(owners: Array, heads: Array, places: Array) -> Array:
    """Return `places` without rows that repeat the row before them."""
    if not len(places):
        return places
    owner, seq_num, row_hash = owners[places], heads["seq_num"][places], heads["hash"][places]
    twin = np.zeros(len(places), bool)
    twin[1:] = (
        (owner[1:] == owner[:-1])
        & (seq_num[1:] == seq_num[:-1])
        & (row_hash[1:] == row_hash[:-1]).all(axis=1)
    )
    kept: Array = places[~twin]
    return kept


def _runs(owners: Array, wanted: Array) -> list[Array]:
    """Return the indexes of each owner's rows, for the owners whose rows are wanted."""
    places = np.flatnonzero(wanted)
    return np.split(places, np.flatnonzero(np.diff(owners[places])) + 1) if len(places) else []


def _judge_log(log_table: LogTable, owner: int, heads: Array, places: Array) -> RowResults:
    log = log_table.logs[owner]
    state = LogState(
        height=int(log["height"]),
        hash=packed_hash(log["hash"]),
        schema=log["schema"].tobytes(),
        ended=bool(log["flags"] & ENDED),
        hashes={int(link["seq_num"]): packed_hash(link["hash"]) for link in log_table.skiplinks_of(owner)},
        is_yamf=bool(heads["flags"][places[0]] & YAMF_LOG),
    )
    return judge(state, [_candidate(row, heads[row]) for row in places.tolist()])


def _candidate(row: int, head: Array) -> Candidate:
    flags = int(head["flags"])
    return Candidate(
        row=row,
        seq_num=int(head["seq_num"]),
        hash=packed_hash(head["hash"]),
        backlink=packed_hash(head["backlink"]),
        skiplink=packed_hash(head["skiplink"]) if flags & HAS_SKIPLINK else None,
        schema=head["schema"].tobytes(),
        end_of_log=bool(flags & END_OF_LOG),
    )


def _forks(
    log_table: LogTable, owners: Array, heads: Array, old: Array, *, fetch_first: FetchFirst, max_fetches: int
) -> list[_Refused]:
    """Return refusals for rows whose sequence number was taken by another entry before."""
    if not len(old):
        return []
    recorded = log_table.recorded(owners[old], heads["seq_num"][old])
    forked = recorded["prefix"] != heads["hash"][old][:, 0]
    refusals: list[_Refused] = []
    seen: set[bytes] = set()
    fetched: dict[int, bytes | None] = {}
    for row, record in zip(old[forked].tolist(), recorded[forked], strict=True):
        row_hash = packed_hash(heads["hash"][row])
        if row_hash in seen:
            continue
        seen.add(row_hash)
        source, prefix = int(record["source"]), record["prefix"].tobytes()
        is_yamf = bool(heads["flags"][row] & YAMF_LOG)
        if source not in fetched and len(fetched) < max_fetches:
            fetched[source] = _checked_first(fetch_first(*split_source(source)), prefix, is_yamf=is_yamf)
        error = fork(int(heads["seq_num"][row]), prefix, is_yamf=is_yamf)
        refusals.append(_Refused(row, error, fetched.get(source)))
    return refusals


def _checked_first(entry: bytes | None, prefix: bytes, *, is_yamf: bool) -> bytes | None:
    """Return the entry if it is the accepted one: a re-created topic may hold another entry there."""
    if entry is None:
        return None
    kept = yamf_digest(YAMF.hash(entry)) if is_yamf else hash_bytes(entry).removeprefix(PREFIX)
    return entry if kept.startswith(prefix) else None


def _yamf_log_key(record: LogRecord) -> bytes:
    """Return the key of a YAMF log from one of its entries: the state keeps only a digest of it."""
    entry = decode_entry(record.entry, YAMF)
    return log_key(entry.public_key, entry.log_id, YAMF)


def _rejected_value(
    head: Array, record: LogRecord, error: CulmError, entries_topic: str, *, first: bytes | None = None
) -> bytes:
    """Return the record for a refused row: `head` of `HEAD`, `record` as it would have been on `logs`."""
    partition, offset = split_source(int(head["source"]))
    return rejection(
        error.code,
        str(error),
        entry=record.entry,
        operation=record.operation,
        brought_by=bytes(head["brought_by"].tobytes()),
        source=(entries_topic, partition, offset),
        seq_num=int(head["seq_num"]),
        first=first,
    ).encode()
