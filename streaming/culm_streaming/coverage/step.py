"""The second stage of a shard: rows and state in, records of `coverage` out. A plain function.

A row of `coverage` is written if its content has changed. The same rows on the same state give the same
bytes. The same records in other batches, or in another order across peers and logs, end in the same coverage,
as long as no limit of `settings` is exceeded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from culm_models.bamboo.range_set import RangeSet
from culm_streaming.coverage.held_log import HeldLog, decode_row, encode_row, has_fragments, said_of
from culm_streaming.coverage.rows import (
    ClaimRow,
    CoverageRows,
    FragmentRow,
    HeldPayloads,
    JoinedRow,
    plain_key,
    range_set,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.state import (
    BLOCKS,
    FRAGMENTS,
    PEERS,
    SHARD,
    check_shard,
    decode_block,
    encode_block,
    encode_shard,
)
from culm_streaming.errors import CoverageFullError, StateMissingError
from culm_streaming.stateful.job_state import JobState, place_of
from culm_topics.logs.records import coverage_key
from culm_topics.records import HEIGHTS_PEER_ID, PEER_ID_SIZE, rejection


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """The source topics of refused rows, by their full names."""

    fragments: str = "culm.fragments"
    holdings: str = "culm.holdings"


@dataclass(slots=True)
class CoverageOutput:
    """Records to write, (key, value) each."""

    coverage: list[tuple[bytes, bytes]] = field(default_factory=list)
    rejected: list[tuple[bytes, bytes]] = field(default_factory=list)


def place_of_log(log: bytes, settings: CoverageLayout) -> tuple[int, int]:
    """Return (shard, block) of a log by its padded key."""
    return place_of(log, settings.shards, settings.blocks)


def step(
    store: JobState, rows: CoverageRows, settings: CoverageLayout, topics: SourceTopics | None = None
) -> CoverageOutput:
    """Add `rows` to the logs of one shard; returns the records to write."""
    kept = check_shard(store.load(SHARD), settings.shards, settings.blocks)
    shard = _Shard(store, settings, topics or SourceTopics(), kept)
    for joined in sorted(rows.joined):
        shard.join(joined)
    for fragment in sorted(rows.fragments):
        shard.add_fragment(fragment)
    for payloads in sorted(rows.payloads):
        shard.add_payloads(payloads)
    # A peer's claims are all in one partition and apply in the order in which it made them.
    for claim in sorted(rows.claims, key=lambda claim: (claim.partition, claim.offset)):
        shard.add_claim(claim)
    return CoverageOutput(list(shard.save()), [*sorted(rows.refused), *shard.refused])


@dataclass(slots=True)
class _Row:
    log: HeldLog
    stored: tuple[bytes, bytes | None]
    new_entries: bool = False


class _Shard:
    """The rows of one shard that a step touches."""

    def __init__(
        self, store: JobState, settings: CoverageLayout, topics: SourceTopics, fragments: int
    ) -> None:
        self.refused: list[tuple[bytes, bytes]] = []
        self._store = store
        self._settings = settings
        self._topics = topics
        self._fragments = fragments
        self._blocks: dict[int, dict[bytes, bytes]] = {}
        self._rows: dict[bytes, _Row] = {}
        self._peers: dict[bytes, int] = {}

    def join(self, row: JoinedRow) -> None:
        """Add entries of `logs`."""
        stored = self._row(HEIGHTS_PEER_ID, row.log)
        if stored is None:
            self._refuse(
                plain_key(row.log), "too many logs share this log's block of state", seq_num=row.start
            )
            return
        before = len(stored.log.fragments)
        stored.log.join(row)
        self._fragments += len(stored.log.fragments) - before
        stored.new_entries = True

    def add_fragment(self, row: FragmentRow) -> None:
        """Add an entry of `fragments`."""
        source = (self._topics.fragments, row.partition, row.offset)
        stored = self._row(HEIGHTS_PEER_ID, row.log)
        number, settings = row.seq_num, self._settings
        if stored is None:
            why = "too many logs share this log's block of state"
            self._refuse(plain_key(row.log), why, seq_num=number, source=source)
            return
        entries = stored.log.entries
        if len(entries) >= settings.max_runs and not any(
            near in entries for near in (number - 1, number, number + 1)
        ):
            why = f"what is held of this log is in {settings.max_runs} pieces already"
            self._refuse(plain_key(row.log), why, seq_num=number, source=source)
            return
        is_full = self._fragments >= settings.max_fragments_per_shard
        max_fragments = len(stored.log.fragments) if is_full else settings.max_fragments_per_log
        self._fragments += stored.log.add_fragment(row, max_fragments=max_fragments)
        stored.new_entries = True

    def add_payloads(self, row: HeldPayloads) -> None:
        """Add payloads that are whole in `payloads`."""
        stored = self._row(HEIGHTS_PEER_ID, row.log)
        if stored is None:
            return  # its entries were refused already
        for number in row.numbers:
            stored.log.payloads.add(number, number + 1)

    def add_claim(self, row: ClaimRow) -> None:
        """Add the holdings that a peer claims."""
        source = (self._topics.holdings, row.partition, row.offset)
        settings = self._settings
        stored = self._row(row.peer_id, row.log)
        if stored is None:
            why = "this peer claims too many logs, or this log's block of state is full"
            self._refuse(plain_key(row.log), why, brought_by=row.peer_id, source=source)
            return
        entries, payloads = stored.log.entries, stored.log.payloads
        after = [_joined(entries, row.entries), _joined(payloads, row.payloads)]
        for start, end in range_set(row.dropped):
            after[1].remove(start, end)
        if any(len(runs) > settings.max_runs for runs in after):
            why = f"this peer's claims to this log are in more than {settings.max_runs} pieces"
            self._refuse(plain_key(row.log), why, brought_by=row.peer_id, source=source)
            return
        stored.log.entries, stored.log.payloads = after

    def save(self) -> Iterator[tuple[bytes, bytes]]:
        """Store the changes; yields the records to write, by key."""
        changed: set[int] = set()
        for key, row in sorted(self._rows.items()):
            if row.new_entries:
                row.log.prove()
            stored = encode_row(row.log)
            block = self._block_of(key)
            rows = self._blocks[block]
            if stored == row.stored:
                if key in rows and not rows[key]:
                    del rows[key]  # a new row without content
                    self._peers_add(key[:PEER_ID_SIZE], -1)
                continue
            rows[key] = stored[0]
            changed.add(block)
            if stored[1] != row.stored[1]:
                self._store.save(FRAGMENTS, key[PEER_ID_SIZE:], stored[1])
            if said_of(stored[0]) != said_of(row.stored[0]):
                record = row.log.record()
                yield coverage_key(key[:PEER_ID_SIZE], plain_key(key[PEER_ID_SIZE:])), record.encode()
        for block in sorted(changed):
            self._store.save(BLOCKS, block, encode_block(self._blocks[block]))
        for peer_id, count in sorted(self._peers.items()):
            if count != (self._store.load(PEERS, peer_id) or 0):
                self._store.save(PEERS, peer_id, count)
        shard = encode_shard(self._settings.shards, self._settings.blocks, self._fragments)
        if changed and shard != self._store.load(SHARD):
            self._store.save(SHARD, (), shard)

    def _row(self, peer_id: bytes, log: bytes) -> _Row | None:
        """Return the row of a peer and log; None if there is no capacity for a new one."""
        key = peer_id + log
        row = self._rows.get(key)
        if row is not None:
            return row
        rows = self._load(self._block_of(key))
        stored = rows.get(key)
        if stored is None:
            is_peer = peer_id != HEIGHTS_PEER_ID
            if len(rows) >= self._settings.max_rows_per_block:
                return None
            if is_peer and self._peer(peer_id) >= self._settings.max_rows_per_peer:
                return None
            self._peers_add(peer_id, 1)
            rows[key] = b""
            held_log = HeldLog()
            row = _Row(held_log, encode_row(held_log))
        else:
            fragments = None
            if has_fragments(stored):
                fragments = self._store.load(FRAGMENTS, log)
                if fragments is None:
                    raise StateMissingError("the links of a log's fragments are missing")
            held_log = decode_row(stored, fragments)
            row = _Row(held_log, (stored, fragments))
        self._rows[key] = row
        return row

    def _load(self, block: int) -> dict[bytes, bytes]:
        rows = self._blocks.get(block)
        if rows is None:
            rows = self._blocks[block] = decode_block(self._store.load(BLOCKS, block))
        return rows

    def _block_of(self, key: bytes) -> int:
        return place_of_log(key[PEER_ID_SIZE:], self._settings)[1]

    def _peer(self, peer_id: bytes) -> int:
        count = self._peers.get(peer_id)
        if count is None:
            count = self._peers[peer_id] = self._store.load(PEERS, peer_id) or 0
        return count

    def _peers_add(self, peer_id: bytes, count: int) -> None:
        if peer_id != HEIGHTS_PEER_ID:
            self._peers[peer_id] = self._peer(peer_id) + count

    def _refuse(
        self,
        key: bytes,
        why: str,
        *,
        brought_by: bytes | None = None,
        source: tuple[str, int, int] | None = None,
        seq_num: int | None = None,
    ) -> None:
        error = CoverageFullError(why)
        record = rejection(error.code, str(error), brought_by=brought_by, source=source, seq_num=seq_num)
        self.refused.append((key, record.encode()))


def _joined(runs: Iterable[tuple[int, int]], more: tuple[int, ...]) -> RangeSet:
    both = range_set(more)
    for start, end in runs:
        both.add(start, end)
    return both
