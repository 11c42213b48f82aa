"""The job `coverage` without Spark: all its shards in memory, and records of its topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from culm_streaming.coverage.packing import (
    CHUNK_START_BYTES,
    PAYLOADS,
    pack_fragments,
    pack_holdings,
    pack_logs,
    pack_payloads,
)
from culm_streaming.coverage.payloads import payloads_step
from culm_streaming.coverage.rows import (
    CoverageRows,
    PayloadRows,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.step import CoverageOutput, place_of_log, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    CoverageRecord,
    HoldingRecord,
    PayloadChunkRecord,
    Runs,
    payload_chunk_key,
)
from culm_topics.records import HEIGHTS_PEER_ID, RejectedRecord
from tests.support.bamboo.bare_logs import BareLogEntry


class Said(NamedTuple):
    """One record of one of the job's topics."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 0


def in_logs(log: Iterable[BareLogEntry], *, inline: bool = True) -> list[Said]:
    """What the job `logs` wrote of these entries."""
    return [Said("logs", entry.key, entry.log_record(inline=inline).encode()) for entry in log]


def in_fragments(log: Iterable[BareLogEntry]) -> list[Said]:
    """These entries as fragments."""
    return [Said("fragments", *entry.fragment()) for entry in log]


def in_payloads(entry: BareLogEntry) -> list[Said]:
    """The chunks of an entry's payload."""
    payload_hash, size = entry.entry.payload_hash, len(entry.payload)
    return [
        Said(
            "payloads",
            payload_chunk_key(payload_hash, at // PAYLOAD_CHUNK_BYTES),
            PayloadChunkRecord(size, at, entry.payload[at : at + PAYLOAD_CHUNK_BYTES]).encode(),
        )
        for at in range(0, size, PAYLOAD_CHUNK_BYTES)
    ]


def in_holdings(
    peer_id: bytes, log: bytes, entries: Runs = (), payloads: Runs = (), dropped: Runs = ()
) -> Said:
    """What a peer says that it holds."""
    return Said("holdings", peer_id, HoldingRecord(log, entries, payloads, dropped).encode())


class CoverageWorld:
    """All shards of a deployment, in memory; `coverage` is the topic, compacted."""

    def __init__(self, layout: CoverageLayout | None = None) -> None:
        self.layout = layout or CoverageLayout(shards=3, blocks=2)
        self.payload_stores = [MemoryState() for _ in range(self.layout.shards)]
        self.stores = [MemoryState() for _ in range(self.layout.shards)]
        self.coverage: dict[bytes, bytes] = {}
        self.rejected: list[tuple[bytes, bytes]] = []
        self.written = 0

    def run(self, batch: Sequence[Said], *, pieces: int = 1) -> CoverageOutput:
        """One micro-batch; what stands before the shuffle reads it in several pieces."""
        payload_rows: dict[int, list[bytes]] = {}
        passed: dict[int, list[bytes]] = {}
        for piece in range(pieces):
            for topic in ("logs", "fragments", "payloads", "holdings"):
                records = [record for record in batch[piece::pieces] if record.topic == topic]
                for shard, stage, rows in self._pack(topic, records):
                    (payload_rows if stage == PAYLOADS else passed).setdefault(shard, []).append(rows)
        for shard, blobs in sorted(payload_rows.items()):
            output = payloads_step(self.payload_stores[shard], PayloadRows.unpack(blobs), self.layout)
            for stored in output.held:
                coverage_shard = place_of_log(stored.log, self.layout)[0]
                passed.setdefault(coverage_shard, []).append(CoverageRows(payloads=[stored]).pack())
            passed.setdefault(shard, []).append(CoverageRows(refused=output.refused).pack())
        whole = CoverageOutput()
        for shard, blobs in sorted(passed.items()):
            part = step(self.stores[shard], CoverageRows.unpack(blobs), self.layout)
            whole.coverage += part.coverage
            whole.rejected += part.rejected
        self.coverage.update(whole.coverage)
        self.rejected += whole.rejected
        self.written += len(whole.coverage)
        return whole

    def _pack(self, topic: str, records: list[Said]) -> list[tuple[int, int, bytes]]:
        plain = [record[1:] for record in records]
        if topic == "logs":
            return list(pack_logs(plain, self.layout, topic))
        if topic == "fragments":
            return list(pack_fragments(plain, self.layout, topic, verify_signature=True))
        if topic == "holdings":
            return list(pack_holdings(plain, self.layout, topic))
        starts = [
            (
                key,
                value and value[:CHUNK_START_BYTES],
                None if value is None else len(value),
                partition,
                offset,
            )
            for key, value, partition, offset in plain
        ]
        return list(pack_payloads(starts, self.layout, topic))

    def of(self, log: bytes, peer_id: bytes = HEIGHTS_PEER_ID) -> CoverageRecord | None:
        """What `coverage` says of a log; None where it says nothing."""
        value = self.coverage.get(peer_id + log)
        return None if value is None else CoverageRecord.decode(value)

    def saves(self) -> int:
        """How often state was written."""
        return sum(store.saves for store in self.stores) + sum(
            payload_store.saves for payload_store in self.payload_stores
        )

    def codes(self) -> list[str]:
        """The codes on `rejected`, sorted."""
        return sorted(RejectedRecord.decode(value).code for _, value in self.rejected)
