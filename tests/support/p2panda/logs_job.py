"""The job `logs` without Spark: records of `entries` in, records of `logs` and `rejected` out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.logs.step import LogsOutput, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.logs.records import EntryRecord, LogRecord
from culm_topics.records import RejectedRecord, log_key

BROUGHT_BY = bytes(range(32))
Arrival = tuple[bytes | None, bytes | None, int, int]


def entry_value(checked: CheckedOperation) -> bytes:
    """The value of `entries` for one entry."""
    return EntryRecord(
        checked.entry_bytes, checked.payload_bytes, checked.schema_id, BROUGHT_BY, 7, b"connector"
    ).encode()


def arrivals(
    entries: Iterable[CheckedOperation], *, first_offset: int = 0, partition: int = 0
) -> list[Arrival]:
    """Records of `entries`, one behind the other in one partition."""
    return [
        (log_key(*checked.log), entry_value(checked), partition, first_offset + index)
        for index, checked in enumerate(entries)
    ]


class Shards:
    """All shards of a deployment, in memory. `topic` is all that was ever put into `entries`."""

    def __init__(self, settings: ChainSettings | None = None) -> None:
        self.settings = settings or ChainSettings(shards=2, blocks=2)
        self.stores = [MemoryState() for _ in range(self.settings.shards)]
        self.topic: dict[tuple[int, int], bytes] = {}
        self.logs: list[tuple[bytes, bytes]] = []
        self.rejected: list[tuple[bytes, bytes]] = []
        self.fetches = 0

    def copy(self) -> Shards:
        """The same state, with nothing written yet."""
        other = Shards(self.settings)
        other.stores = [store.copy() for store in self.stores]
        other.topic = dict(self.topic)
        return other

    def run(self, batch: Sequence[Arrival], *, pieces: int = 1) -> LogsOutput:
        """One micro-batch; stage one reads it in several pieces, in any order."""
        for _, value, partition, offset in batch:
            if value is not None:
                self.topic[partition, offset] = value
        packed: dict[int, list[tuple[bytes, bytes, bytes]]] = {}
        for piece in range(pieces):
            for rows in pack_records(batch[piece::pieces], self.settings, verify_signature=False):
                packed.setdefault(rows.shard, []).append((rows.heads, rows.sizes, rows.values))
        output = LogsOutput()
        for shard, records in sorted(packed.items()):
            part = step(self.stores[shard], unpack_rows(records), self.settings, self._fetch)
            output.logs += part.logs
            output.rejected += part.rejected
        self.logs += output.logs
        self.rejected += output.rejected
        return output

    def _fetch(self, partition: int, offset: int) -> bytes | None:
        self.fetches += 1
        value = self.topic.get((partition, offset))
        return None if value is None else EntryRecord.decode(value).entry

    def log(self, key: bytes) -> list[LogRecord]:
        """What was written to `logs` for one log."""
        return [LogRecord.decode(value) for log, value in self.logs if log == key]

    def refusals(self) -> list[RejectedRecord]:
        """What was written to `rejected`."""
        return [RejectedRecord.decode(value) for _, value in self.rejected]

    def codes(self) -> list[str]:
        """The codes on `rejected`, sorted."""
        return sorted(refusal.code for refusal in self.refusals())
