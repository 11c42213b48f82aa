"""Turns records of `entries` into packed rows, by shard: the stateless half of the job `logs`.

All checks that need only the entry itself are made here, before the shuffle, on all cores in parallel. The
loops run for every record of the deployment: their cost is the job's throughput.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blake3 import blake3

from culm_models.bamboo.errors import LogIdError
from culm_models.bamboo.hashes import YAMF
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import check_many, check_size, peek
from culm_streaming.logs.bare import BareRow, bare_row, read_bare
from culm_streaming.logs.rows import (
    END_OF_LOG,
    HAS_SKIPLINK,
    KEYLESS,
    NO_HASH,
    OFFSET_BITS,
    PACK_HEAD,
    READY,
    YAMF_LOG,
    RecordParts,
    log_value,
    pack_rows,
    pack_source,
    take_apart,
)
from culm_streaming.logs.settings import ChainSettings
from culm_streaming.stateful.job_state import place_of
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord, LogRecord
from culm_topics.records import LOG_KEY_SIZE, rejection, split_flavoured_log_key
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

Record = tuple[bytes | None, bytes | None, int, int]
"""(key, value, partition, offset) of a record of `entries`."""

MAX_VALUE_BYTES = MAX_MESSAGE_BYTES - 4096
"""Limit of a value of `logs`, in bytes: it fits into one record with key and headers."""

# A packed record, and with it a batch between Spark and Python, stays far below 2 GiB.
_FLUSH_BYTES = 64 * 1024 * 1024
_KNOWN_SCHEMAS = 4096
_SCHEMA_SIZE = 16


class PackedEntries(NamedTuple):
    """The rows of one shard from one batch of records: heads, value sizes and values, each concatenated."""

    shard: int
    heads: bytes
    sizes: bytes
    values: bytes


def place_of_log(log_key: bytes, settings: ChainSettings) -> tuple[int, int]:
    """Return (shard, block) of a log."""
    return place_of(log_key, settings.shards, settings.blocks)


def pack_records(
    records: Sequence[Record], settings: ChainSettings, *, verify_signature: bool
) -> Iterator[PackedEntries]:
    """Check every record and pack it for its shard, as an entry or as a ready-made record of `rejected`."""
    shards = settings.shards
    heads: list[list[bytes]] = [[] for _ in range(shards)]
    values: list[list[bytes]] = [[] for _ in range(shards)]
    places: dict[bytes, tuple[int, int]] = {}
    schemas: dict[str, tuple[bytes, bytes]] = {}
    size_bytes = 0
    opened = [_open(record, settings, verify_signature=verify_signature) for record in records]
    pairs = [
        (parts.entry, parts.operation) for parts in opened if isinstance(parts, (RecordParts, EntryRecord))
    ]
    results = iter(check_many(pairs, verify_signature=verify_signature))
    for source, parts in zip(records, opened, strict=True):
        key, value, partition, offset = source
        try:
            if isinstance(parts, CulmError):
                raise parts
            if isinstance(parts, BareRow):
                head, packed, shard = parts
            else:
                checked = next(results)
                if isinstance(checked, CulmError):
                    raise checked
                check_size(checked.payload_bytes)
                entry = checked.entry
                seq_num = entry.seq_num
                if key != entry.public_key + entry.log_id.to_bytes(8, "big"):
                    raise RecordError("entries: the key is not the log key of the entry")
                if checked.facts.action == "create" and seq_num > 1:
                    raise LogIdError(f"entry {seq_num} of log {entry.log_id} creates a second document")
                schema_id = checked.schema_id
                schema = schemas.get(schema_id)
                if schema is None:
                    if len(schemas) >= _KNOWN_SCHEMAS:
                        schemas.clear()
                    text = schema_id.encode()
                    schema = schemas[schema_id] = text, blake3(text).digest()[:_SCHEMA_SIZE]
                if type(parts) is RecordParts and parts.schema == schema[0]:
                    packed = log_value(parts, seq_num, checked.hash)
                else:
                    EntryRecord.decode(value)  # the schema id may be wrong, but must be text
                    packed = LogRecord(
                        seq_num, checked.entry_bytes, checked.payload_bytes, checked.hash, schema_id
                    ).encode()
                if len(packed) > MAX_VALUE_BYTES:
                    raise RecordError(f"entries: {len(packed)} bytes are too many for a record of logs")
                skiplink, backlink, flags = NO_HASH, NO_HASH, 0
                if entry.backlink is not None:
                    backlink = entry.backlink[2:]
                    if entry.skiplink is not None:
                        skiplink, flags = entry.skiplink[2:], HAS_SKIPLINK
                if entry.end_of_log:
                    flags |= END_OF_LOG
                location = places.get(key)
                if location is None:
                    location = places[key] = place_of_log(key, settings)
                shard, block = location
                head = PACK_HEAD(
                    key,
                    seq_num,
                    partition << OFFSET_BITS | offset,
                    checked.hash[2:],
                    backlink,
                    skiplink,
                    schema[1],
                    parts.brought_by,
                    block,
                    flags,
                )
        except CulmError as error:
            # A traceback would keep this frame, and with it the bytes of all records, in a cycle.
            head, packed, shard = _refuse(source, error.with_traceback(None), settings)
        heads[shard].append(head)
        values[shard].append(packed)
        size_bytes += len(packed)
        if size_bytes > _FLUSH_BYTES:
            yield from _flushed(heads, values)
            size_bytes = 0
    yield from _flushed(heads, values)


def _open(
    record: Record, settings: ChainSettings, *, verify_signature: bool
) -> RecordParts | EntryRecord | BareRow | CulmError:
    """Return the parts of a record, the whole row of a bare log's record, or the error that refuses it."""
    key, value, partition, offset = record
    parts = None if value is None else take_apart(value)
    if parts is not None and parts.schema:
        return parts
    try:
        stated = EntryRecord.decode(value)
        if stated.schema_id:
            return stated
        bare = read_bare(key, stated, peek, verify_signature=verify_signature)
        if bare is None:
            return stated
        location = place_of_log(bare.key, settings)
        return bare_row(bare, pack_source(partition, offset), location, max_bytes=MAX_VALUE_BYTES)
    except CulmError as error:
        return error.with_traceback(None)


def _flushed(heads: list[list[bytes]], values: list[list[bytes]]) -> Iterator[PackedEntries]:
    """Yield the rows packed so far, and empty the lists."""
    for shard, shard_heads in enumerate(heads):
        if shard_heads:
            yield PackedEntries(shard, *pack_rows(shard_heads, values[shard]))
            shard_heads.clear()
            values[shard].clear()


def _refuse(source: Record, error: CulmError, settings: ChainSettings) -> tuple[bytes, bytes, int]:
    """Return (head, value, shard) of the record of `rejected`; undecodable bytes are included unchanged."""
    key, value, partition, offset = source
    try:
        record = EntryRecord.decode(value)
    except RecordError:
        record = None
    refused = rejection(
        error.code,
        str(error),
        entry=value if record is None else record.entry,
        operation=None if record is None else record.operation,
        brought_by=None if record is None else record.brought_by,
        source=(settings.entries_topic, partition, offset),
    ).encode()
    try:
        flavour, _ = split_flavoured_log_key(key)
        assert key is not None
        flags = READY | YAMF_LOG if flavour is YAMF else READY
        shard, block = place_of_log(key, settings)
    except RecordError:
        key, flags, shard, block = bytes(LOG_KEY_SIZE), READY | KEYLESS, offset % settings.shards, 0
    head = PACK_HEAD(
        key,
        0,
        pack_source(partition, offset),
        NO_HASH,
        NO_HASH,
        NO_HASH,
        bytes(16),
        bytes(32),
        block,
        flags,
    )
    return head, refused, shard
