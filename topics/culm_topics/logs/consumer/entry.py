"""What the consumer of replicated logs yields."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm_topics.records import log_key

if TYPE_CHECKING:
    from culm_models.bamboo import Entry


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One verified entry of a replicated log, with where it stood in the topic.

    `public_key` 32 bytes, `hash` 34 bytes, `timestamp_ms` when the broker took the record (milliseconds since
    1970). `entry_bytes` and `operation_bytes` are the very bytes that the author signed and hashed.
    """

    public_key: bytes
    log_id: int
    seq_num: int
    entry_bytes: bytes
    operation_bytes: bytes
    hash: bytes
    schema_id: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        """The log's 40-byte key."""
        return log_key(self.public_key, self.log_id)

    def entry(self) -> "Entry":
        """The Bamboo entry, decoded now."""
        from culm_models.bamboo import decode_entry

        return decode_entry(self.entry_bytes)


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far the reading again of one partition has come, after a restart without a state directory."""

    partition: int
    offset: int
    target_offset: int
