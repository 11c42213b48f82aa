"""The first stage of a shard: whole payloads in `payloads`, and entries that wait for one.

Chunks name only the hash of their payload, so this state is sharded by hash. A row is sent to the log's own
shard as soon as the payload is whole and an entry names it, whichever comes first. For a whole payload, 16
bytes of its hash are stored; for an incomplete one, the runs of its chunks; for one without chunks, the
entries that wait for it.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import cbor2

from culm_models.bamboo.range_set import RangeSet
from culm_streaming.coverage.rows import (
    HeldPayloads,
    PayloadChunkRow,
    PayloadRows,
    WantRow,
    flat,
    plain_key,
    range_set,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.errors import CoverageFullError
from culm_streaming.stateful.job_state import JobState, Variable, check_format, place_of
from culm_topics.records import rejection

_FORMAT: Final = 1
_WHOLE: Final = 0


HASHES: Variable[bytes] = Variable("hashes", "block int")
"""The state of the payloads of one block."""


@dataclass(slots=True)
class PayloadsOutput:
    """Rows for the shards of logs, and records of `rejected`."""

    held: list[HeldPayloads] = field(default_factory=list)
    refused: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class _Payload:
    """State of a payload. `count`: its number of chunks, 0 if unknown; `waiting`: numbers by log."""

    is_whole: bool = False
    count: int = 0
    chunks: RangeSet = field(default_factory=RangeSet)
    waiting: dict[bytes, set[int]] = field(default_factory=dict)


def place_of_payload(payload: bytes, settings: CoverageLayout) -> tuple[int, int]:
    """Return (shard, block) of a payload, by its cut hash."""
    return place_of(payload, settings.shards, settings.blocks)


def payloads_step(store: JobState, rows: PayloadRows, settings: CoverageLayout) -> PayloadsOutput:
    """Process chunks and wants of one shard; returns the entries whose payloads are held."""
    output = PayloadsOutput()
    touched: dict[int, list[PayloadChunkRow | WantRow]] = {}
    both: list[PayloadChunkRow | WantRow] = [*rows.chunks, *rows.wants]
    for row in both:
        touched.setdefault(place_of_payload(row.payload, settings)[1], []).append(row)
    held_numbers: dict[bytes, set[int]] = {}
    for number, block_rows in sorted(touched.items()):
        before = store.load(HASHES, number)
        known = _decode(before)
        for row in block_rows:
            payload = known.get(row.payload)
            if payload is None:
                if len(known) >= settings.max_payloads_per_block:
                    output.refused.append(
                        _refused(row, "too many payloads share this payload's block of state")
                    )
                    continue
                payload = known[row.payload] = _Payload()
            if isinstance(row, PayloadChunkRow):
                _add_chunk(payload, row, held_numbers)
            elif payload.is_whole:
                held_numbers.setdefault(row.log, set()).add(row.seq_num)
            elif sum(map(len, payload.waiting.values())) >= settings.max_waiting_per_payload:
                if row.seq_num not in payload.waiting.get(row.log, ()):
                    output.refused.append(_refused(row, "too many entries wait for this payload"))
            else:
                payload.waiting.setdefault(row.log, set()).add(row.seq_num)
        after = _encode(known)
        if after != before:
            store.save(HASHES, number, after)
    output.held += [
        HeldPayloads(log, tuple(sorted(numbers))) for log, numbers in sorted(held_numbers.items())
    ]
    output.refused.sort()
    return output


def _add_chunk(payload: _Payload, row: PayloadChunkRow, held_numbers: dict[bytes, set[int]]) -> None:
    if payload.is_whole:
        return
    payload.count = row.total
    payload.chunks.add(row.number, row.number + 1)
    if payload.chunks.covers(0, row.total):
        for log, numbers in payload.waiting.items():
            held_numbers.setdefault(log, set()).update(numbers)
        payload.is_whole, payload.count, payload.chunks, payload.waiting = True, 0, RangeSet(), {}


def _refused(row: PayloadChunkRow | WantRow, why: str) -> tuple[bytes, bytes]:
    error = CoverageFullError(why)
    if isinstance(row, WantRow):
        return plain_key(row.log), rejection(error.code, str(error), entry=None, seq_num=row.seq_num).encode()
    return b"", rejection(error.code, str(error), entry=None).encode()


def _encode(known: dict[bytes, _Payload]) -> bytes:
    kept: dict[bytes, Any] = {}
    for payload_hash, payload in sorted(known.items()):
        waiting = {log: sorted(numbers) for log, numbers in sorted(payload.waiting.items())}
        kept[payload_hash] = _WHOLE if payload.is_whole else (payload.count, flat(payload.chunks), waiting)
    return cbor2.dumps((_FORMAT, kept))


def _decode(blob: bytes | None) -> dict[bytes, _Payload]:
    if blob is None:
        return {}
    form, kept = cbor2.loads(blob)
    check_format("a block of payloads", form, _FORMAT)
    known: dict[bytes, _Payload] = {}
    for payload_hash, what in kept.items():
        if what == _WHOLE:
            known[payload_hash] = _Payload(is_whole=True)
        else:
            count, chunks, waiting = what
            known[payload_hash] = _Payload(
                False, count, range_set(chunks), {log: set(numbers) for log, numbers in waiting.items()}
            )
    return known
