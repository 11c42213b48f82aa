"""The state of one shard of logs: the stored variables, and the columns of all logs that one step touches.

The state has four variables of packed bytes. A block of logs is a format byte, then columns of fixed-size
records:
    format u8 | 3 zero bytes | number of logs u32 | LOG each | SKIPLINK of each log | TAIL of each log

Blobs are rewritten whole when one of their logs grows, so a block is meant to hold tens to hundreds of logs.

Eight bytes of the hash and the entry's place in `entries` are kept for every accepted entry. The latest are
in the log's block; every `CHUNK` entries move to a record of their own, so that blocks stay small however
long a log grows. (An author who wants two own entries that share eight bytes of their hashes has to try 2**32
hashes, and gains only that the second entry is dropped as a repeat instead of being reported.)

A `LogTable` holds every log of the touched blocks, then the new ones; logs are identified by their index.
Skiplinks and tail are stored log by log, in order of sequence number, so that a whole micro-batch is looked
up and written in a few array operations.

A log must remember hashes for future skiplinks (Bamboo, "links and entry verification"): entry `t` is needed
until the last entry whose skiplink names it has arrived. At any height, the number of such entries grows with
the logarithm of the height.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import numpy as np

from culm_models.bamboo import lipmaa, needs_skiplink
from culm_streaming.errors import StateMissingError
from culm_streaming.logs.rows import END_OF_LOG, Array
from culm_streaming.stateful.job_state import JobState, Variable, check_format

TOTALS: Variable[bytes] = Variable("totals")
"""The shard's own record: layout and totals."""
BLOCKS: Variable[bytes] = Variable("blocks", "block int")
"""The packed state of the logs of one block."""
HISTORY: Variable[bytes] = Variable("history", "log_key binary, chunk long")
"""Full chunks of a long log's history."""
EARLY: Variable[bytes] = Variable("early", "log_key binary")
"""The packed early arrivals of one log."""
VARIABLES = (TOTALS, BLOCKS, HISTORY, EARLY)

FORMAT = 1
ENDED = 1

CHUNK = 256
_CHUNK_FORMAT = 1

LOG = np.dtype(
    [
        ("key", "V40"),
        ("height", "<u8"),
        ("hash", "<u8", (4,)),
        ("schema", "<u8", (2,)),
        ("early_bytes", "<u4"),
        ("early_count", "<u2"),
        ("skiplinks", "<u2"),
        ("tail", "<u2"),
        ("flags", "u1"),
    ]
)
"""`key` and hashes are as in `rows.HEAD`. `hash` is the last accepted entry's; `skiplinks` and `tail` are the
numbers of the log's records after the logs."""

SKIPLINK = np.dtype([("seq_num", "<u8"), ("hash", "<u8", (4,))])
"""An accepted entry that a future skiplink will name."""

TAIL = np.dtype([("prefix", "<u8"), ("source", "<u8")])
"""An accepted entry: the first 8 bytes of its hash, and its place in `entries`."""

_HEADER = struct.Struct("<BxxxI")


def encode_block(logs: Array, skiplinks: Array, tail: Array) -> bytes:
    """Return the blob of these logs; skiplinks and tail must be in the order of the logs."""
    header = _HEADER.pack(FORMAT, len(logs))
    return b"".join((header, logs.tobytes(), skiplinks.tobytes(), tail.tobytes()))


def decode_block(blob: bytes) -> tuple[Array, Array, Array]:
    """Return (logs, skiplinks, tail) of a blob. Raises `StateLayoutError` if it has another format."""
    form, count = _HEADER.unpack_from(blob)
    check_format("a block of state", form, FORMAT)
    offset = _HEADER.size
    logs = np.frombuffer(blob, LOG, count, offset)
    offset += logs.nbytes
    skiplinks = np.frombuffer(blob, SKIPLINK, int(logs["skiplinks"].sum(dtype=np.int64)), offset)
    offset += skiplinks.nbytes
    tail = np.frombuffer(blob, TAIL, int(logs["tail"].sum(dtype=np.int64)), offset)
    if offset + tail.nbytes != len(blob):
        raise StateMissingError("a block of state has the wrong size")
    return logs, skiplinks, tail


def save_chunk(store: JobState, log_key: bytes, chunk: int, entries: Array) -> None:
    """Store `CHUNK` entries of a log's history, which follow those of the previous chunks."""
    assert len(entries) == CHUNK
    store.save(HISTORY, (log_key, chunk), bytes((_CHUNK_FORMAT,)) + entries.tobytes())


def load_chunk(store: JobState, log_key: bytes, chunk: int) -> Array:
    """Load `CHUNK` entries of a log's history."""
    blob = store.load(HISTORY, (log_key, chunk))
    if blob is None:
        raise StateMissingError(f"chunk {chunk} of a log's history is missing")
    check_format("a chunk of history", blob[0], _CHUNK_FORMAT)
    return np.frombuffer(blob, TAIL, CHUNK, 1)


_SPINE: tuple[int, ...] = tuple((int(3**k) - 1) // 2 for k in range(1, 42))
_LAST_SEQ_NUM = 2**64 - 1
_TABLE_SIZE = 1 << 14


@lru_cache(maxsize=1 << 16)
def last_use(seq_num: int) -> int:
    """Return the highest sequence number whose skiplink names `seq_num`; 0 if there is none.

    A skiplink spans a spine number, or leads from a spine number to the one before it. The entry directly
    after `seq_num` does not count: its link is the backlink.
    """
    latest = 0
    position = bisect_left(_SPINE, seq_num)
    if position < len(_SPINE) - 1 and _SPINE[position] == seq_num:
        latest = _SPINE[position + 1]
    # A span is smaller than the number that it starts from, so at most the next spine number counts.
    for span in _SPINE[1 : position + 2]:
        source = seq_num + span
        if source > latest and source <= _LAST_SEQ_NUM and lipmaa(source) == seq_num:
            latest = source
    return latest


def prepare() -> None:
    """Compute both tables now: a process that forks workers computes them once for all."""
    _table(last_use)
    _table(_target)


def _target(seq_num: int) -> int:
    return lipmaa(seq_num) if needs_skiplink(seq_num) else 0


@cache
def _table(compute: Callable[[int], int]) -> Array:
    """Return a table for low numbers, made on first use: a quarter of a second, too long for an import."""
    return np.array([0, *map(compute, range(1, _TABLE_SIZE))], np.uint64)


def last_uses(seq_nums: Array) -> Array:
    """Return `last_use` of every number of an array."""
    return _looked_up(seq_nums, last_use)


def skiplink_targets(seq_nums: Array) -> Array:
    """Return the number that each entry's skiplink names; 0 for an entry without one."""
    return _looked_up(seq_nums, _target)


def _looked_up(seq_nums: Array, compute: Callable[[int], int]) -> Array:
    values: Array = _table(compute)[np.minimum(seq_nums, _TABLE_SIZE - 1)]
    for index in np.flatnonzero(seq_nums >= _TABLE_SIZE).tolist():
        values[index] = compute(int(seq_nums[index]))
    return values


# A log's height is the number of entries accepted one by one, so 40 bits are never reached.
_SEQ_NUM_BITS = 40
_MAX_SEQ_NUM = np.uint64((1 << _SEQ_NUM_BITS) - 1)


class LogTable:
    """The state of the logs in the blocks of `block_of_key`, and of the new logs among its keys.

    `index` gives each log's index in `logs`, an array of `LOG`. A new log whose block is full is not in it.
    """

    def __init__(
        self, store: JobState, block_of_key: Mapping[bytes, int], *, max_logs_per_block: int
    ) -> None:
        self._store = store
        numbers = sorted(set(block_of_key.values()))
        parts = [(number, decode_block(blob)) for number in numbers if (blob := store.load(BLOCKS, number))]
        old: Array = np.concatenate([np.empty(0, LOG), *(part[0] for _, part in parts)])
        self.index = {key: index for index, key in enumerate(old["key"].tolist())}
        capacity = {number: max_logs_per_block - len(part[0]) for number, part in parts}
        new: list[bytes] = []
        for key in sorted(block_of_key.keys() - self.index.keys()):
            number = block_of_key[key]
            capacity[number] = capacity.get(number, max_logs_per_block) - 1
            if capacity[number] >= 0:
                self.index[key] = len(old) + len(new)
                new.append(key)
        fresh = np.zeros(len(new), LOG)
        fresh["key"] = np.frombuffer(b"".join(new), "V40")
        self.logs: Array = np.concatenate([old, fresh])
        self._skiplinks: Array = np.concatenate([np.empty(0, SKIPLINK), *(part[1] for _, part in parts)])
        self._skiplink_owner = np.repeat(np.arange(len(self.logs)), self.logs["skiplinks"])
        self._tail: Array = np.concatenate([np.empty(0, TAIL), *(part[2] for _, part in parts)])
        self._block: Array = np.concatenate(
            [
                np.empty(0, np.int64),
                *(np.full(len(part[0]), number, np.int64) for number, part in parts),
                np.array([block_of_key[key] for key in new], np.int64),
            ]
        )
        self._changed = np.zeros(len(self.logs), bool)

    def recorded(self, owners: Array, seq_nums: Array) -> Array:
        """Return the records (`TAIL`) of accepted entries, one for each owner and sequence number."""
        records = np.empty(len(owners), TAIL)
        tail_size = self.logs["tail"].astype(np.int64)
        tail_start = np.cumsum(tail_size) - tail_size
        in_chunks = (self.logs["height"] - self.logs["tail"])[owners]
        position = seq_nums.astype(np.int64) - 1
        near = seq_nums > in_chunks
        near_owners = owners[near]
        records[near] = self._tail[
            tail_start[near_owners] + position[near] - in_chunks[near].astype(np.int64)
        ]
        chunks: dict[tuple[int, int], Array] = {}
        for row in np.flatnonzero(~near).tolist():
            owner, (chunk, index) = int(owners[row]), divmod(int(position[row]), CHUNK)
            entries = chunks.get((owner, chunk))
            if entries is None:
                entries = chunks[owner, chunk] = load_chunk(self._store, self._key(owner), chunk)
            records[row] = entries[index]
        return records

    def skiplink_hashes(self, owners: Array, seq_nums: Array) -> tuple[Array, Array]:
        """Return (found, hashes) of the remembered entries with these owners and sequence numbers."""
        known = self._skiplink_owner << _SEQ_NUM_BITS | self._skiplinks["seq_num"].astype(np.int64)
        wanted = owners << _SEQ_NUM_BITS | np.minimum(seq_nums, _MAX_SEQ_NUM).astype(np.int64)
        if not len(known):
            return np.zeros(len(owners), bool), np.zeros((len(owners), 4), np.uint64)
        index = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return known[index] == wanted, self._skiplinks["hash"][index]

    def skiplinks_of(self, owner: int) -> Array:
        """Return the remembered entries (`SKIPLINK`) of one log."""
        start, end = np.searchsorted(self._skiplink_owner, [owner, owner + 1])
        return self._skiplinks[start:end]

    def set_early(self, owner: int, count: int, size_bytes: int) -> None:
        """Record the present number and size of the log's early arrivals."""
        self.logs["early_count"][owner], self.logs["early_bytes"][owner] = count, size_bytes
        self._changed[owner] = True

    def append(self, owners: Array, heads: Array) -> None:
        """Append accepted entries: sorted by owner, each log's in sequence order without gaps."""
        if not len(owners):
            return
        grown, first, count = np.unique(owners, return_index=True, return_counts=True)
        last = first + count - 1
        logs = self.logs
        is_new = logs["height"][grown] == 0
        logs["schema"][grown[is_new]] = heads["schema"][first[is_new]]
        logs["height"][grown] = heads["seq_num"][last]
        logs["hash"][grown] = heads["hash"][last]
        logs["flags"][grown[(heads["flags"][last] & END_OF_LOG) != 0]] |= ENDED
        self._changed[grown] = True
        self._append_tail(owners, heads)
        self._append_skiplinks(owners, heads)

    def _append_tail(self, owners: Array, heads: Array) -> None:
        added = np.empty(len(owners), TAIL)
        added["prefix"], added["source"] = heads["hash"][:, 0], heads["source"]
        count = len(self.logs)
        sizes = self.logs["tail"].astype(np.int64)
        owner = np.concatenate([np.repeat(np.arange(count), sizes), owners])
        order = np.argsort(owner, kind="stable")
        owner, tail = owner[order], np.concatenate([self._tail, added])[order]
        sizes = np.bincount(owner, minlength=count)
        starts = np.cumsum(sizes) - sizes
        spilled = np.zeros(len(tail), bool)
        for log in np.flatnonzero(sizes >= CHUNK).tolist():
            start, full = int(starts[log]), int(sizes[log]) // CHUNK
            before = (int(self.logs["height"][log]) - int(sizes[log])) // CHUNK
            for chunk in range(full):
                first = start + chunk * CHUNK
                save_chunk(self._store, self._key(log), before + chunk, tail[first : first + CHUNK])
            spilled[start : start + full * CHUNK] = True
        self._tail = tail[~spilled]
        self.logs["tail"] = sizes % CHUNK

    def _append_skiplinks(self, owners: Array, heads: Array) -> None:
        added = np.empty(len(owners), SKIPLINK)
        added["seq_num"], added["hash"] = heads["seq_num"], heads["hash"]
        owner = np.concatenate([self._skiplink_owner, owners])
        skiplinks = np.concatenate([self._skiplinks, added])
        wanted = last_uses(skiplinks["seq_num"]) > self.logs["height"][owner]
        owner, skiplinks = owner[wanted], skiplinks[wanted]
        order = np.argsort(owner, kind="stable")
        self._skiplink_owner, self._skiplinks = owner[order], skiplinks[order]
        self.logs["skiplinks"] = np.bincount(owner, minlength=len(self.logs))

    def save(self) -> None:
        """Write the blocks in which a log changed. A new log without entries leaves no trace."""
        alive = (self.logs["height"] > 0) | (self.logs["early_count"] > 0)
        tail_owner = np.repeat(np.arange(len(self.logs)), self.logs["tail"])
        for number in np.unique(self._block[self._changed]).tolist():
            mine = alive & (self._block == number)
            blob = encode_block(
                self.logs[mine], self._skiplinks[mine[self._skiplink_owner]], self._tail[mine[tail_owner]]
            )
            self._store.save(BLOCKS, number, blob)

    def _key(self, owner: int) -> bytes:
        return bytes(self.logs["key"][owner].tobytes())
