"""Records of bare logs: their payloads are not operations, and only Bamboo's rules apply to them.

A record of `entries` without a schema id declares a bare log. A YAMF log is always bare; a YASMF log is bare
unless the payload of its first entry is an operation, whatever the record declares. The kind of a log is that
of its first accepted entry: an entry of the other kind is refused for its different schema.

A payload that is not inline is in `payloads`, or not available. An entry that is sent twice, once with its
payload and once without, is one entry: the first that is accepted is written to `logs`.
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
"""The schema of a bare log in a row's head."""


class BareEntry(NamedTuple):
    """A checked entry of a bare log, with its record; `key` is the key of its log."""

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
    """Return the entry of a record that declares a bare log; None if it begins a log of operations.

    `read_facts` must raise an error if a payload is not an operation.

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


def bare_row(bare: BareEntry, source: int, location: tuple[int, int], *, max_bytes: int) -> BareRow:
    """Return the row for an entry from this place in `entries`, of a log in this (shard, block)."""
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
        NO_HASH if link is None else yamf_digest(link) if is_yamf else link[len(flavour.prefix) :]
        for link in (entry_hash, entry.backlink, entry.skiplink)
    ]
    shard, block = location
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
