"""Which logs a consumer wants.

Bare logs, whose payloads are no operations, come only to who asks for them: a program that was written for
operations would take their payloads for such.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from culm_topics.errors import RecordError
from culm_topics.records import LOG_KEY_SIZE, PUBLIC_KEY_SIZE, log_key


@dataclass(frozen=True, slots=True)
class Selection:
    """All logs of operations, or those that fit every filter given (None: not filtered by this).

    With `bare_logs` bare logs too, which `schema_ids` says nothing of.
    """

    schema_ids: frozenset[str] | None = None
    public_keys: frozenset[bytes] | None = None
    log_keys: frozenset[bytes] | None = None
    """The first 40 bytes of the keys: of an author and number the logs of either flavour."""
    bare_logs: bool = False

    @staticmethod
    def of(
        schema_ids: Iterable[str] | None = None,
        public_keys: Iterable[bytes] | None = None,
        logs: Iterable[tuple[bytes, int]] | None = None,
        *,
        bare_logs: bool = False,
    ) -> "Selection":
        """A selection by schema ids, by authors' raw public keys, and by (public_key, log_id) pairs.

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
        """Whether a log of this key may be wanted, as far as the key tells."""
        if len(key) > LOG_KEY_SIZE and not self.bare_logs:
            return False
        if self.log_keys is not None and key[:LOG_KEY_SIZE] not in self.log_keys:
            return False
        return self.public_keys is None or key[:PUBLIC_KEY_SIZE] in self.public_keys

    def takes_schema(self, schema_id: str) -> bool:
        """Whether entries of this schema are wanted; none is that of bare logs."""
        if not schema_id:
            return self.bare_logs
        return self.schema_ids is None or schema_id in self.schema_ids

    def fingerprint(self) -> str:
        """Equal for equal selections: heights kept for one selection are of no use to another."""
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
