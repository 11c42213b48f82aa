"""`fragments`: verified entries outside of what is held of their log without gaps, one record an entry.

An entry leaves the topic when nothing asks for it any more; that its log has reached it says `logs`. The
value depends on the entry alone: whoever writes it again writes the same bytes.
"""

from dataclasses import dataclass

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_topics.errors import RecordError
from culm_topics.logs.records.logs import ENTRY_HASH_SIZE, YAMF_ENTRY_HASH_SIZE
from culm_topics.records.keys import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE, key_partition, split_flavoured_log_key
from culm_topics.records.shape import (
    FORMAT,
    MAX_UINT,
    check_size,
    dump,
    load_array,
    refuse_item,
    require,
    string_size,
)

_FIXED_SIZE = 2  # array head and format
_SEQ_NUM_SIZE = 8


@dataclass(frozen=True, slots=True)
class FragmentRecord:
    """Value of `fragments`; its key is the log key and the sequence number."""

    entry: bytes
    entry_hash: bytes

    def encode(self) -> bytes:
        """`[1, entry, entry_hash]`."""
        sound = len(self.entry_hash) in (ENTRY_HASH_SIZE, YAMF_ENTRY_HASH_SIZE)
        require(sound, "fragments", "entry_hash has another size")
        return dump(FORMAT, self.entry, self.entry_hash)

    @staticmethod
    def decode(value: bytes | None) -> "FragmentRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, entry, entry_hash = load_array(value, "fragments", 3)
        if type(entry) is not bytes:
            refuse_item("fragments", "entry", entry, "bytes")
        if type(entry_hash) is not bytes or len(entry_hash) not in (ENTRY_HASH_SIZE, YAMF_ENTRY_HASH_SIZE):
            refuse_item("fragments", "entry_hash", entry_hash, "34 or 66 bytes")
        check_size(value, _FIXED_SIZE + string_size(len(entry)) + string_size(len(entry_hash)), "fragments")
        return FragmentRecord(entry, entry_hash)


def fragment_key(log_key: bytes, seq_num: int) -> bytes:
    """The key of one entry: 48 bytes, 49 of a YAMF log's. Raises `RecordError`."""
    require(len(log_key) in (LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE), "fragments key", "that is no log key")
    require(1 <= seq_num <= MAX_UINT, "fragments key", f"{seq_num} is no sequence number")
    return log_key + seq_num.to_bytes(_SEQ_NUM_SIZE, "big")


def split_fragment_key(key: bytes | None) -> tuple[HashFlavour, LogKey, int]:
    """Flavour, (public_key, log_id) and sequence number; `RecordError` when the key is no fragment's."""
    flavour, log = split_flavoured_log_key(None if key is None else key[:-_SEQ_NUM_SIZE])
    seq_num = int.from_bytes((key or b"")[-_SEQ_NUM_SIZE:], "big")
    if seq_num == 0:
        raise RecordError("fragments key: sequence numbers start at 1")
    return flavour, log, seq_num


def fragment_partition(log_key: bytes, partitions: int) -> int:
    """The partition of `fragments`, of so many, that holds this log: the one of the same number in `logs`.

    Producers name it: by the whole key a log would be spread over all of them, and a member of a group that
    reads a log could not read its fragments beside it.
    """
    return key_partition(log_key, partitions)


def decode_fragment(
    key: bytes | None, value: bytes | None
) -> tuple[HashFlavour, LogKey, int, FragmentRecord]:
    """Flavour, log, sequence number and record. Raises `RecordError`, also where hash and flavour differ.

    Whether the entry is what the key names, its own bytes say: `culm_models.bamboo.decode_entry`.
    """
    flavour, log, seq_num = split_fragment_key(key)
    record = FragmentRecord.decode(value)
    if not flavour.has_form(record.entry_hash):
        raise RecordError(f"fragments: entry_hash is no hash of the {flavour.name} form that the key names")
    return flavour, log, seq_num, record
