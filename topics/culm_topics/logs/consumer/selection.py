"""Which logs a consumer wants."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from culm_topics.errors import RecordError
from culm_topics.records import PUBLIC_KEY_SIZE, log_key


@dataclass(frozen=True, slots=True)
class Selection:
    """All logs, or those that fit every filter given (None: not filtered by this)."""

    schema_ids: frozenset[str] | None = None
    public_keys: frozenset[bytes] | None = None
    log_keys: frozenset[bytes] | None = None

    @staticmethod
    def of(
        schema_ids: Iterable[str] | None = None,
        public_keys: Iterable[bytes] | None = None,
        logs: Iterable[tuple[bytes, int]] | None = None,
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
        )

    def takes_key(self, key: bytes) -> bool:
        """Whether a log of this key may be wanted, as far as the key tells."""
        if self.log_keys is not None and key not in self.log_keys:
            return False
        return self.public_keys is None or key[:PUBLIC_KEY_SIZE] in self.public_keys

    def takes_schema(self, schema_id: str) -> bool:
        """Whether entries of this schema are wanted."""
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
        return digest.hexdigest()
