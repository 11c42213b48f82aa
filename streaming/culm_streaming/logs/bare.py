"""Records of bare logs: their payloads are nobody's operations, and Bamboo's rules alone check them.

A record of `entries` without a schema id states a bare log. A YAMF log always is one; a YASMF log is unless
the payload of its first entry is an operation, whatever is stated. A log's kind is that of its first accepted
entry: an entry of the other kind is refused as one of another schema.

A payload that is not inline lies in `payloads`, or nowhere. An entry that comes twice, once with its payload
and once without, is one entry: the first that is accepted is the one on `logs`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from blake3 import blake3

from culm_models.bamboo import Entry, check_payload, check_signature, decode_entry
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.errors import CulmError
from culm_streaming.logs.rows import (
    END_OF_LOG,
    HAS_SKIPLINK,
    NO_HASH,
    PACK_HEAD,
    YAMF_LOG,
    yamf_digest,
    yamf_key,
)
from culm_topics.errors import RecordError
from culm_topics.logs.records import EntryRecord, LogRecord
from culm_topics.records import split_flavoured_log_key

BARE_SCHEMA: Final = blake3(b"").digest()[:16]
"""What a head says of the schema of a bare log."""


class BareEntry(NamedTuple):
    """An entry of a bare log that stands by itself, with the record that it came in; `key` is its log's."""

    key: bytes
    flavour: HashFlavour
    entry: Entry
    record: EntryRecord


class BareRow(NamedTuple):
    """A row for the shuffle: the packed head, the value for `logs`, and the shard."""

    head: bytes
    value: bytes
    shard: int


def read_bare(
    key: bytes | None,
    record: EntryRecord,
    read_facts: Callable[[bytes], object],
    *,
    verify_signature: bool,
) -> BareEntry | None:
    """The entry of a record that states a bare log; None where it begins a log of another kind.

    `read_facts` raises where a payload is no operation.

    Raises `BambooError` and `RecordError`.
    """
    flavour, log = split_flavoured_log_key(key)
    assert key is not None
    entry = decode_entry(record.entry, flavour)
    if (entry.public_key, entry.log_id) != log:
        raise RecordError("entries: the key is not the log key of the entry")
    if record.operation or not entry.payload_size:
        check_payload(entry, record.operation, flavour)
    if flavour is YASMF and entry.seq_num == 1 and _is_of(record.operation, read_facts):
        return None
    if verify_signature:
        check_signature(record.entry, entry)
    return BareEntry(key, flavour, entry, record)


def bare_row(bare: BareEntry, source: int, place: tuple[int, int], *, max_bytes: int) -> BareRow:
    """The row for an entry from this place in `entries`, of a log in this (shard, block)."""
    key, flavour, entry, record = bare
    entry_hash = flavour.hash(record.entry)
    value = LogRecord(entry.seq_num, record.entry, record.operation, entry_hash, "").encode()
    if len(value) > max_bytes:
        raise RecordError(f"entries: {len(value)} bytes are too many for a record of logs")
    is_yamf = flavour is YAMF
    flags = YAMF_LOG if is_yamf else 0
    if entry.skiplink is not None:
        flags |= HAS_SKIPLINK
    if entry.end_of_log:
        flags |= END_OF_LOG
    hashes = [
        NO_HASH if one is None else yamf_digest(one) if is_yamf else one[len(flavour.prefix) :]
        for one in (entry_hash, entry.backlink, entry.skiplink)
    ]
    shard, block = place
    head = PACK_HEAD(
        yamf_key(key) if is_yamf else key,
        entry.seq_num,
        source,
        *hashes,
        BARE_SCHEMA,
        record.brought_by,
        block,
        flags,
    )
    return BareRow(head, value, shard)


def _is_of(payload: bytes, read_facts: Callable[[bytes], object]) -> bool:
    try:
        read_facts(payload)
    except CulmError:
        return False
    return True
