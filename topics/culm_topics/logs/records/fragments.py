"""`fragments`: verified entries beyond the gap-free part of their log, one record per entry.

An entry leaves the topic when nothing refers to it any more; `logs` tells that its log has reached it. The
value depends on the entry alone: every writer writes the same bytes.
"""

from typing import Annotated

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.logs.records.logs import EntryHash
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE, key_partition, split_flavoured_log_key
from culm_topics.records.shape import MAX_UINT, require

_SEQ_NUM_SIZE = 8


@record(
    "fragments",
    "a verified entry behind a gap in its log. Key: log key (40 bytes, 41 of a YAMF log), seq_num (u64).",
)
class FragmentRecord(Record):
    """Value of `fragments`; its key is the log key and the sequence number."""

    entry: Annotated[bytes, "the Bamboo entry's bytes, as its author signed them"]
    entry_hash: EntryHash


def fragment_key(log_key: bytes, seq_num: int) -> bytes:
    """Return the key of an entry: 48 bytes, or 49 for a YAMF log. Raises `RecordError`."""
    require(len(log_key) in (LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "fragments key", "that is no log key")
    require(1 <= seq_num <= MAX_UINT, "fragments key", f"{seq_num} is no sequence number")
    return log_key + seq_num.to_bytes(_SEQ_NUM_SIZE, "big")


def split_fragment_key(key: bytes | None) -> tuple[HashFlavour, LogKey, int]:
    """Return flavour, (public_key, log_id) and sequence number.

    Raises `RecordError` if the key is malformed.
    """
    flavour, log = split_flavoured_log_key(None if key is None else key[:-_SEQ_NUM_SIZE])
    seq_num = int.from_bytes((key or b"")[-_SEQ_NUM_SIZE:], "big")
    if seq_num == 0:
        raise RecordError("fragments key: sequence numbers start at 1")
    return flavour, log, seq_num


def fragment_partition(log_key: bytes, partitions: int) -> int:
    """Return the partition of `fragments` that holds this log: its partition of `logs`.

    Producers name it: by the whole key a log would be spread over all partitions, and a member of a group
    that reads a log could not read its fragments beside it.
    """
    return key_partition(log_key, partitions)


def decode_fragment(
    key: bytes | None, value: bytes | None
) -> tuple[HashFlavour, LogKey, int, FragmentRecord]:
    """Return flavour, log, sequence number and record.

    Raises `RecordError`, also if hash and flavour differ. Whether the entry is the one that the key names is
    determined by its own bytes: `culm_models.bamboo.decode_entry`.
    """
    flavour, log, seq_num = split_fragment_key(key)
    record = FragmentRecord.decode(value)
    if not flavour.has_form(record.entry_hash):
        raise RecordError(f"fragments: entry_hash is no hash of the {flavour.name} form that the key names")
    return flavour, log, seq_num, record
