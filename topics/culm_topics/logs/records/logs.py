"""`logs`: a verified entry of a replicated log, in sequence order within its log.

The value is a function of the entry and its operation alone: whoever writes it again writes the same bytes.
Of a bare log, whose payloads are no operations, `schema_id` is empty and `operation` is the payload, or empty
where that is not inline: the entry says its size, and the topic `payloads` has it, or nobody here does.
"""

from dataclasses import dataclass

from culm_topics.records.shape import (
    FORMAT,
    check_size,
    dump,
    head_size,
    is_uint,
    load_array,
    refuse_item,
    require,
    string_size,
    text_size,
)

ENTRY_HASH_SIZE = 34
"""Of a YASMF entry, which every operation's is."""
YAMF_ENTRY_HASH_SIZE = 66
_FIXED_SIZE = 2 + 2  # array head and format, head of entry_hash


@dataclass(frozen=True, slots=True)
class LogRecord:
    """Value of `logs`. `entry_hash` (34 bytes, 66 in a YAMF log) is the entry's identifier everywhere."""

    seq_num: int
    entry: bytes
    operation: bytes
    entry_hash: bytes
    schema_id: str

    def encode(self) -> bytes:
        """`[1, seq_num, entry, operation, entry_hash, schema_id]`."""
        sound = len(self.entry_hash) in (ENTRY_HASH_SIZE, YAMF_ENTRY_HASH_SIZE)
        require(sound, "logs", "entry_hash has another size")
        require(self.seq_num >= 1, "logs", "seq_num is below 1")
        return dump(FORMAT, self.seq_num, self.entry, self.operation, self.entry_hash, self.schema_id)

    @staticmethod
    def decode(value: bytes | None) -> "LogRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, seq_num, entry, operation, entry_hash, schema_id = load_array(value, "logs", 6)
        if not is_uint(seq_num) or seq_num == 0:
            refuse_item("logs", "seq_num", seq_num, "an unsigned integer from 1")
        if type(entry) is not bytes:
            refuse_item("logs", "entry", entry, "bytes")
        if type(operation) is not bytes:
            refuse_item("logs", "operation", operation, "bytes")
        if type(entry_hash) is not bytes or (
            (hash_size := len(entry_hash)) != ENTRY_HASH_SIZE and hash_size != YAMF_ENTRY_HASH_SIZE
        ):
            refuse_item("logs", "entry_hash", entry_hash, "34 or 66 bytes")
        if type(schema_id) is not str:
            refuse_item("logs", "schema_id", schema_id, "text")
        check_size(
            value,
            _FIXED_SIZE
            + hash_size
            + head_size(seq_num)
            + string_size(len(entry))
            + string_size(len(operation))
            + text_size(schema_id),
            "logs",
        )
        return LogRecord(seq_num, entry, operation, entry_hash, schema_id)
