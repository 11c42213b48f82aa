"""What the consumer of replicated logs yields."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm_models.bamboo.hashes import YASMF, HashFlavour
from culm_topics.records import log_key

if TYPE_CHECKING:
    from culm_models.bamboo import Entry


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One verified entry of a replicated log, with where it stood in the topic.

    `public_key` 32 bytes, `hash` 34 bytes, `timestamp_ms` when the broker took the record (milliseconds since
    1970). `entry_bytes` and `operation_bytes` are the very bytes that the author signed and hashed.

    Consumers that ask for them get entries of bare logs too, whose payloads are no operations: `schema_id` is
    empty, and `payload` says what there is of the payload. A log of `flavour` YAMF has hashes of 66 bytes.
    `is_sparse`: there are gaps before the entry; `partition` and `offset` are then those of the topic
    `fragments`, and the entry comes again, in its place, when its log has no gap before it any more.
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
    flavour: HashFlavour = YASMF
    is_sparse: bool = False

    @property
    def key(self) -> bytes:
        """The log's key: 40 bytes, 41 of a YAMF log."""
        return log_key(self.public_key, self.log_id, self.flavour)

    @property
    def is_bare(self) -> bool:
        """Whether its payload is no operation; of a sparse entry it is not known, and this is true."""
        return not self.schema_id

    @property
    def payload(self) -> bytes | None:
        """The payload; None where it is not beside the entry: `payloads` may have it (`PayloadReader`)."""
        if self.operation_bytes or not self.is_bare or self.entry().payload_size == 0:
            return self.operation_bytes
        return None

    def entry(self) -> "Entry":
        """The Bamboo entry, decoded now."""
        from culm_models.bamboo import decode_entry

        return decode_entry(self.entry_bytes, self.flavour)


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far the reading again of one partition has come, after a restart without a state directory."""

    partition: int
    offset: int
    target_offset: int
