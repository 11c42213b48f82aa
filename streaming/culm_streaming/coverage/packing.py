"""Turns records of the job's sources into rows by shard: the stateless part of the job `coverage`.

Entries of `logs` were checked individually before they were written. Those of `fragments` are checked here:
form, key, hash, and signature. The job `blocks` reports malformed records of `logs`. A record without a value
means that its key has left the topic: what was held stays held.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from culm_models.bamboo import check_signature, decode_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo.range_set import RangeSet
from culm_models.errors import CulmError
from culm_streaming.coverage.payloads import place_of_payload
from culm_streaming.coverage.provable import lower_pool
from culm_streaming.coverage.rows import (
    ClaimRow,
    CoverageRows,
    FragmentRow,
    JoinedRow,
    PayloadChunkRow,
    PayloadRows,
    WantRow,
    cut_hash,
    flat,
    padded_key,
)
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.step import place_of_log
from culm_topics.errors import RecordError
from culm_topics.logs.records import (
    PAYLOAD_CHUNK_BYTES,
    HoldingRecord,
    LogRecord,
    chunk_count,
    decode_fragment,
    split_payload_chunk_key,
)
from culm_topics.records import (
    HEIGHTS_PEER_ID,
    LOG_KEY_SIZE,
    YAMF_LOG_KEY_SIZE,
    check_peer_key,
    log_key,
    rejection,
    split_flavoured_log_key,
)

Record = tuple[bytes | None, bytes | None, int, int]
"""(key, value, partition, offset)."""

PAYLOADS, COVERAGE = 0, 1
"""The stages: whole payloads, and the coverage of each log."""

CHUNK_START_BYTES = 32
"""Number of bytes that are read of a chunk: its sizes come before its bytes."""

Packed = tuple[int, int, bytes]
"""(shard, stage, rows)."""


@dataclass(slots=True)
class _LogRun:
    """The entries of one log in a batch: hash by number, and the numbers of entries with their payloads."""

    hashes: dict[int, bytes] = field(default_factory=dict)
    with_payload: list[int] = field(default_factory=list)


class _Dealt:
    """Rows by shard, for both stages."""

    def __init__(self, settings: CoverageLayout, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._payloads: dict[int, PayloadRows] = {}
        self._coverage: dict[int, CoverageRows] = {}

    def of_log(self, log: bytes) -> CoverageRows:
        """Return the rows of the shard of a log, by its padded key."""
        return self._of(place_of_log(log, self._settings)[0])

    def of_payload(self, payload: bytes) -> PayloadRows:
        """Return the rows of the shard of a payload, by its cut hash."""
        return self._payloads.setdefault(place_of_payload(payload, self._settings)[0], PayloadRows())

    def refuse(self, record: Record, error: CulmError, *, brought_by: bytes | None = None) -> None:
        """Add a record of `rejected` for a malformed record."""
        key, value, partition, offset = record
        source = (self._topic, partition, offset)
        refused = rejection(error.code, str(error), entry=value, brought_by=brought_by, source=source)
        log = (key or b"")[: -8 if len(key or b"") > YAMF_LOG_KEY_SIZE else None]
        try:
            split_flavoured_log_key(log)
        except RecordError:
            log = b""
        self._of(offset % self._settings.shards).refused.append((log, refused.encode()))

    def packed(self) -> Iterator[Packed]:
        """Yield all rows, packed."""
        for shard, payload_rows in sorted(self._payloads.items()):
            yield shard, PAYLOADS, payload_rows.pack()
        for shard, rows in sorted(self._coverage.items()):
            yield shard, COVERAGE, rows.pack()

    def _of(self, shard: int) -> CoverageRows:
        return self._coverage.setdefault(shard, CoverageRows())


def pack_logs(records: Iterable[Record], settings: CoverageLayout, topic: str) -> Iterator[Packed]:
    """Pack a batch of `logs`: runs of entries, one row each."""
    dealt = _Dealt(settings, topic)
    logs: dict[bytes, _LogRun] = {}
    for source in records:
        key, value, _, _ = source
        try:
            record = LogRecord.decode(value)
            if key is None or not LOG_KEY_SIZE <= len(key) <= YAMF_LOG_KEY_SIZE:
                raise RecordError("logs: the key is no log key")
            seq_num = record.seq_num
            run = logs.get(key)
            if run is None:
                split_flavoured_log_key(key)
                run = logs[key] = _LogRun()
            run.hashes[seq_num] = record.entry_hash
            if record.operation:
                run.with_payload.append(seq_num)
            else:
                entry = decode_entry(record.entry, YAMF if len(key) == YAMF_LOG_KEY_SIZE else YASMF)
                if not entry.payload_size:
                    run.with_payload.append(seq_num)
                else:
                    payload, log = cut_hash(entry.payload_hash), padded_key(key)
                    dealt.of_payload(payload).wants.append(WantRow(payload, log, seq_num))
        except CulmError as error:
            if key is not None and len(key) == YAMF_LOG_KEY_SIZE:
                dealt.refuse(source, error)
    for key, run in logs.items():
        log = padded_key(key)
        dealt.of_log(log).joined += _joined_rows(log, run)
    return dealt.packed()


def _joined_rows(log: bytes, run: _LogRun) -> Iterator[JoinedRow]:
    hashes = run.hashes
    numbers = sorted(hashes)
    first, last = numbers[0], numbers[-1]
    if last - first + 1 == len(numbers) == len(run.with_payload):
        named = lower_pool(first, last + 1)
        kept = b"".join([cut_hash(hashes[number]) for number in named])
        yield JoinedRow(log, first, last + 1, tuple(named), kept, (first, last + 1))
        return
    whole = RangeSet()
    for number in sorted(run.with_payload):
        whole.add(number, number + 1)
    cuts = [
        0,
        *(index + 1 for index, (low, high) in enumerate(pairwise(numbers)) if high > low + 1),
        len(numbers),
    ]
    payloads = flat(whole)
    for low, high in pairwise(cuts):
        start, last = numbers[low], numbers[high - 1]
        named = lower_pool(start, last + 1)
        kept = b"".join(cut_hash(hashes[number]) for number in named)
        yield JoinedRow(log, start, last + 1, tuple(named), kept, payloads)
        payloads = ()


def pack_fragments(
    records: Iterable[Record], settings: CoverageLayout, topic: str, *, verify_signature: bool
) -> Iterator[Packed]:
    """Pack a batch of `fragments`, each checked."""
    dealt = _Dealt(settings, topic)
    for source in records:
        if source[1] is None:
            continue
        try:
            row, payload = _fragment(source, verify_signature=verify_signature)
        except CulmError as error:
            dealt.refuse(source, error.with_traceback(None))
            continue
        dealt.of_log(row.log).fragments.append(row)
        if not row.is_whole:
            dealt.of_payload(payload).wants.append(WantRow(payload, row.log, row.seq_num))
    return dealt.packed()


def _fragment(source: Record, *, verify_signature: bool) -> tuple[FragmentRow, bytes]:
    key, value, partition, offset = source
    flavour, log, seq_num, record = decode_fragment(key, value)
    entry = decode_entry(record.entry, flavour)
    if ((entry.public_key, entry.log_id), entry.seq_num) != (log, seq_num):
        raise RecordError("fragments: the key names another entry than the record holds")
    if flavour.hash(record.entry) != record.entry_hash:
        raise RecordError("fragments: entry_hash is not the hash of the entry")
    if verify_signature:
        check_signature(record.entry, entry)
    row = FragmentRow(
        padded_key(log_key(*log, flavour)),
        seq_num,
        cut_hash(record.entry_hash),
        cut_hash(entry.backlink),
        cut_hash(entry.skiplink),
        not entry.payload_size,
        partition,
        offset,
    )
    return row, cut_hash(entry.payload_hash)


def pack_payloads(
    records: Iterable[tuple[bytes | None, bytes | None, int | None, int, int]],
    settings: CoverageLayout,
    topic: str,
) -> Iterator[Packed]:
    """Pack a batch of `payloads` as (key, first bytes of the value, size of the value, partition, offset)."""
    dealt = _Dealt(settings, topic)
    for key, start, size_bytes, partition, offset in records:
        if start is None or size_bytes is None:
            continue
        try:
            payload_hash, index = split_payload_chunk_key(key)
            count = _chunk_count(start, size_bytes, index)
        except CulmError as error:
            dealt.refuse((key, start, partition, offset), error.with_traceback(None))
            continue
        payload = cut_hash(payload_hash)
        dealt.of_payload(payload).chunks.append(PayloadChunkRow(payload, index, count, partition, offset))
    return dealt.packed()


def _chunk_count(start: bytes, size_bytes: int, index: int) -> int:
    """Return the number of chunks of a payload, from the start of its `PayloadChunkRecord` `index`."""
    if not start.startswith(b"\x84\x01"):
        raise RecordError("payloads: that is no chunk")
    payload_size, position = _head(start, 2, 0)
    chunk_at, position = _head(start, position, 0)
    data_size, position = _head(start, position, 2)
    is_right = chunk_at == index * PAYLOAD_CHUNK_BYTES < payload_size
    if not is_right or data_size != min(PAYLOAD_CHUNK_BYTES, payload_size - chunk_at):
        raise RecordError("payloads: sizes and key of the chunk do not fit each other")
    if position + data_size != size_bytes:
        raise RecordError("payloads: the size of the record is not that of its chunk")
    return chunk_count(payload_size)


def _head(start: bytes, position: int, major: int) -> tuple[int, int]:
    """Return (argument, position after it) of the CBOR head of this major type at a position."""
    first = start[position] if position < len(start) else 0xFF
    low = first & 0x1F
    width = 0 if low < 24 else 1 << low - 24 if low < 28 else 9
    end = position + 1 + width
    if first >> 5 != major or width > 8 or end > len(start):
        raise RecordError("payloads: that is no chunk")
    return (int.from_bytes(start[position + 1 : end], "big") if width else low), end


def pack_holdings(records: Iterable[Record], settings: CoverageLayout, topic: str) -> Iterator[Packed]:
    """Pack a batch of `holdings`."""
    dealt = _Dealt(settings, topic)
    for source in records:
        key, value, partition, offset = source
        try:
            peer_id = check_peer_key(key)
            if peer_id == HEIGHTS_PEER_ID:
                raise RecordError("holdings: the all-zero peer id is reserved for the deployment")
            holding = HoldingRecord.decode(value)
        except CulmError as error:
            dealt.refuse(
                source, error.with_traceback(None), brought_by=key if len(key or b"") == 32 else None
            )
            continue
        log = padded_key(holding.log_key)
        dealt.of_log(log).claims.append(
            ClaimRow(
                peer_id,
                log,
                flat(holding.entries),
                flat(holding.payloads),
                flat(holding.payloads_dropped),
                partition,
                offset,
            )
        )
    return dealt.packed()
