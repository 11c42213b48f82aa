"""Decides which entries continue their logs (Bamboo, "entry verification").

A micro-batch simply continues most logs, which is decided for all of them together. This is a shortcut, never
a separate rule: rows that do not pass it are checked entry by entry.

The models implement the rules; this module only applies their results to a log. Entries are checked in order
of sequence number, and entries with the same number in order of arrival: the first valid one is kept,
whatever the micro-batches were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from culm_models.bamboo import Entry, check_links, errors
from culm_models.bamboo.hashes import PREFIX
from culm_models.errors import CulmError
from culm_models.p2panda.ingest import LogSchemaError
from culm_streaming.logs.log_table import ENDED, LogTable, skiplink_targets
from culm_streaming.logs.rows import END_OF_LOG, HAS_SKIPLINK, Array


def simply_continued(log_table: LogTable, owners: Array, heads: Array) -> Array:
    """Return for each row whether all rows of its log continue it, with correct links and nothing unusual.

    Rows are sorted by owner and sequence number, all above their log's height.
    """
    if not len(owners):
        return np.zeros(0, bool)
    logs = log_table.logs
    seq_nums, height = heads["seq_num"], logs["height"][owners]
    is_first = np.concatenate([[True], owners[1:] != owners[:-1]])
    starts = np.flatnonzero(is_first)
    run = np.cumsum(is_first) - 1
    first = starts[run]
    positions = np.arange(len(owners))

    good = seq_nums == height + 1 + (positions - first).astype(np.uint64)
    # A log without entries has the hash 0, and so has the absent backlink of a first entry.
    before = np.roll(heads["hash"], 1, axis=0)
    before[starts] = logs["hash"][owners[starts]]
    good &= (heads["backlink"] == before).all(axis=1)
    schema = np.where((height == 0)[:, None], heads["schema"][first], logs["schema"][owners])
    good &= (heads["schema"] == schema).all(axis=1)
    ended_before = np.roll((heads["flags"] & END_OF_LOG) != 0, 1)
    ended_before[starts] = (logs["flags"][owners[starts]] & ENDED) != 0
    good &= ~ended_before

    with_skiplink = np.flatnonzero((heads["flags"] & HAS_SKIPLINK) != 0)
    if len(with_skiplink):
        target = skiplink_targets(seq_nums[with_skiplink])
        floor = height[with_skiplink]
        in_batch = target > floor
        is_known, named = log_table.skiplink_hashes(owners[with_skiplink], target)
        behind = first[with_skiplink] + (target - floor - 1).astype(np.int64)
        is_known |= in_batch
        behind = np.where(in_batch & (behind >= 0) & (behind < len(owners)), behind, 0)
        named = np.where(in_batch[:, None], heads["hash"][behind], named)
        good[with_skiplink] &= is_known & (heads["skiplink"][with_skiplink] == named).all(axis=1)
    whole_run: Array = np.logical_and.reduceat(good, starts)
    result: Array = whole_run[run]
    return result


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry above the log's height; hashes are 32 bytes, `row` is the caller's identifier."""

    row: int
    seq_num: int
    hash: bytes
    backlink: bytes
    skiplink: bytes | None
    schema: bytes
    end_of_log: bool


@dataclass(frozen=True, slots=True)
class LogState:
    """The known state of a log: `hashes` are those that skiplinks may name, by sequence number."""

    height: int
    hash: bytes
    schema: bytes
    ended: bool
    hashes: Mapping[int, bytes]
    is_yamf: bool = False


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A refused row; for a fork, `first` is the row of the entry that is kept."""

    row: int
    error: CulmError
    first: int | None = None


@dataclass(slots=True)
class RowResults:
    """Rows by result; repeats are in none of the lists."""

    accepted: list[int] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)
    early: list[int] = field(default_factory=list)


def judge(log: LogState, candidates: Sequence[Candidate]) -> RowResults:
    """Validate `candidates`, which are sorted by sequence number and then by arrival."""
    results = RowResults()
    height, schema = log.height, log.schema
    hashes = {**log.hashes, log.height: log.hash} if log.height else {}
    ended_at = log.height if log.ended else None
    row_at: dict[int, int] = {}
    seen: set[tuple[int, bytes]] = set()
    for candidate in candidates:
        seq_num = candidate.seq_num
        if (seq_num, candidate.hash) in seen:
            continue
        seen.add((seq_num, candidate.hash))
        if seq_num in row_at:
            error = fork(seq_num, hashes[seq_num], is_yamf=log.is_yamf)
            results.refused.append(RefusedRow(candidate.row, error, row_at[seq_num]))
            continue
        if ended_at is None and seq_num > height + 1:
            results.early.append(candidate.row)
            continue
        refused = _check(candidate, hashes, ended_at, schema)
        if refused is not None:
            results.refused.append(RefusedRow(candidate.row, refused))
            continue
        results.accepted.append(candidate.row)
        height, schema = seq_num, candidate.schema
        hashes[seq_num], row_at[seq_num] = candidate.hash, candidate.row
        if candidate.end_of_log:
            ended_at = seq_num
    return results


def fork(seq_num: int, first_hash: bytes, *, is_yamf: bool) -> errors.ForkError:
    """Return the error for an entry whose number is taken; `first_hash` may be the start of a hash."""
    start = first_hash[:8].hex() if is_yamf else (PREFIX + first_hash[:8]).hex()
    what = "BLAKE3 digest of its hash" if is_yamf else "hash"
    return errors.ForkError(f"another entry {seq_num} of this log came first: its {what} starts with {start}")


def _check(
    candidate: Candidate, hashes: Mapping[int, bytes], ended_at: int | None, schema: bytes
) -> CulmError | None:
    entry = Entry(
        public_key=b"",
        log_id=0,
        seq_num=candidate.seq_num,
        end_of_log=candidate.end_of_log,
        skiplink=None if candidate.skiplink is None else PREFIX + candidate.skiplink,
        backlink=PREFIX + candidate.backlink,
        payload_size=0,
        payload_hash=b"",
        signature=b"",
    )

    def hash_at(seq_num: int) -> bytes | None:
        entry_hash = hashes.get(seq_num)
        return None if entry_hash is None else PREFIX + entry_hash

    try:
        check_links(entry, hash_at=hash_at, end_of_log_at=ended_at)
    except errors.BambooError as error:
        return error
    if candidate.seq_num > 1 and candidate.schema != schema:
        return LogSchemaError(
            f"entry {candidate.seq_num} is of another schema than the first entry of its log"
        )
    return None
