"""The logs that a consumer selects, and the entries that it hands out.

Bare logs, whose payloads are not operations, are handed out only on request: a program that was written for
operations would mistake their payloads for operations.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm_models.bamboo.hashes import YASMF, HashFlavour
from culm_topics.errors import RecordError
from culm_topics.records import LOG_KEY_SIZE, PUBLIC_KEY_SIZE, log_key

if TYPE_CHECKING:
    from culm_models.bamboo import Entry


@dataclass(frozen=True, slots=True)
class Selection:
    """All logs of operations, or those that match every filter given (None: no filter).

    With `bare_logs` also bare logs, to which `schema_ids` does not apply.
    """

    schema_ids: frozenset[str] | None = None
    public_keys: frozenset[bytes] | None = None
    log_keys: frozenset[bytes] | None = None
    """The first 40 bytes of the keys: they select logs of an author and number in both flavours."""
    bare_logs: bool = False

    @staticmethod
    def of(
        schema_ids: Iterable[str] | None = None,
        public_keys: Iterable[bytes] | None = None,
        logs: Iterable[tuple[bytes, int]] | None = None,
        *,
        bare_logs: bool = False,
    ) -> "Selection":
        """Return a selection by schema ids, by authors' raw public keys, and by (public_key, log_id) pairs.

        Raises `RecordError` for a public key that is not 32 bytes.
        """
        authors = None if public_keys is None else frozenset(public_keys)
        if authors is not None and any(len(key) != PUBLIC_KEY_SIZE for key in authors):
            raise RecordError(f"an author's public key is not {PUBLIC_KEY_SIZE} bytes")
        return Selection(
            None if schema_ids is None else frozenset(schema_ids),
            authors,
            None if logs is None else frozenset(log_key(author, log_id) for author, log_id in logs),
            bare_logs,
        )

    def takes_key(self, key: bytes) -> bool:
        """Whether a log with this key may be selected, as far as the key tells."""
        if len(key) > LOG_KEY_SIZE and not self.bare_logs:
            return False
        if self.log_keys is not None and key[:LOG_KEY_SIZE] not in self.log_keys:
            return False
        return self.public_keys is None or key[:PUBLIC_KEY_SIZE] in self.public_keys

    def takes_schema(self, schema_id: str) -> bool:
        """Whether entries of this schema are selected; an empty id stands for bare logs."""
        if not schema_id:
            return self.bare_logs
        return self.schema_ids is None or schema_id in self.schema_ids

    def fingerprint(self) -> str:
        """Return a digest of the selection: heights stored for one selection are useless to another."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (
            None if self.schema_ids is None else sorted(text.encode() for text in self.schema_ids),
            None if self.public_keys is None else sorted(self.public_keys),
            None if self.log_keys is None else sorted(self.log_keys),
        ):
            digest.update(b"any" if part is None else len(part).to_bytes(8, "big"))
            for item in part or ():
                digest.update(len(item).to_bytes(8, "big") + item)
        if self.bare_logs:
            digest.update(b"bare")
        return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One verified entry of a replicated log, with its position in the topic.

    `public_key` has 32 bytes, `hash` 34 bytes; `timestamp_ms` is when the broker stored the record
    (milliseconds since 1970). `entry_bytes` and `operation_bytes` are exactly the bytes that the author
    signed and hashed.

    Consumers can request entries of bare logs too, whose payloads are not operations: `schema_id` is then
    empty, and `payload` returns the payload if it is present. A log of `flavour` YAMF has hashes of 66 bytes.
    `is_sparse`: there are gaps before the entry; `partition` and `offset` are then those of the topic
    `fragments`, and the entry is handed out again, in its place, when its log has no gap before it any more.
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
        """The log's key: 40 bytes, or 41 for a YAMF log."""
        return log_key(self.public_key, self.log_id, self.flavour)

    @property
    def is_bare(self) -> bool:
        """Whether its payload is not an operation; true for a sparse entry, for which it is unknown."""
        return not self.schema_id

    @property
    def payload(self) -> bytes | None:
        """The payload, or None if it is not beside the entry: `payloads` may have it (`PayloadReader`)."""
        if self.operation_bytes or not self.is_bare or self.entry().payload_size == 0:
            return self.operation_bytes
        return None

    def entry(self) -> "Entry":
        """Decode the Bamboo entry."""
        from culm_models.bamboo import decode_entry

        return decode_entry(self.entry_bytes, self.flavour)


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """Progress of reading a partition again after a restart without a state directory."""

    partition: int
    offset: int
    target_offset: int
