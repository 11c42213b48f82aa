"""Errors of Bamboo entries: one class per rule, each with a stable code."""

from culm_models.errors import ModelError


class BambooError(ModelError, code="bamboo"):
    """Base of all errors: an entry, or its place in its log, breaks a rule of Bamboo."""


class TruncatedEntryError(BambooError, code="bamboo.truncated"):
    """The bytes end before the entry does."""


class EntryTrailingBytesError(BambooError, code="bamboo.trailing_bytes"):
    """Bytes follow the signature; they would change the entry's hash without being signed."""


class EntryTagError(BambooError, code="bamboo.tag"):
    """The first byte is neither 0 (regular) nor 1 (end of log)."""


class NumberFormError(BambooError, code="bamboo.number_form"):
    """A number is not a VarU64 in its shortest form."""


class SeqNumError(BambooError, code="bamboo.seq_num"):
    """The sequence number is 0, or not the expected one."""


class BacklinkMissingError(BambooError, code="bamboo.backlink_missing"):
    """An entry after the first has no backlink."""


class BacklinkUnexpectedError(BambooError, code="bamboo.backlink_unexpected"):
    """The first entry of a log has a link."""


class SkiplinkMissingError(BambooError, code="bamboo.skiplink_missing"):
    """The sequence number requires a skiplink, and the entry has none."""


class SkiplinkUnexpectedError(BambooError, code="bamboo.skiplink_unexpected"):
    """The entry has a skiplink, although it would lead to the same entry as the backlink."""


class SkiplinkIdenticalError(BambooError, code="bamboo.skiplink_identical"):
    """Skiplink and backlink are the same hash, although they name different entries."""


class HashFormError(BambooError, code="bamboo.hash_form"):
    """A link or the payload hash is not a hash of the log's flavour."""


class SignatureError(BambooError, code="bamboo.signature"):
    """The signature is not the author's over these bytes."""


class PayloadSizeError(BambooError, code="bamboo.payload_size"):
    """The payload's size is not the one that the entry states."""


class PayloadHashError(BambooError, code="bamboo.payload_hash"):
    """The payload's hash is not the one that the entry states."""


class BacklinkMismatchError(BambooError, code="bamboo.backlink_mismatch"):
    """The backlink is not the hash of the previous entry."""


class SkiplinkMismatchError(BambooError, code="bamboo.skiplink_mismatch"):
    """The skiplink is not the hash of the entry that it names."""


class BacklinkUnknownError(BambooError, code="bamboo.backlink_unknown"):
    """The previous entry is not held, so the backlink cannot be checked yet."""


class SkiplinkUnknownError(BambooError, code="bamboo.skiplink_unknown"):
    """The entry that the skiplink names is not held, so it cannot be checked yet."""


class AfterEndOfLogError(BambooError, code="bamboo.after_end_of_log"):
    """The author ended the log at a lower sequence number."""


class ForkError(BambooError, code="bamboo.fork"):
    """Two different entries of one log have the same sequence number."""


class LogIdError(BambooError, code="bamboo.log_id"):
    """The log id is not the required one."""
