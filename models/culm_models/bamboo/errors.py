"""What can be wrong with a Bamboo entry: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import ModelError


class BambooError(ModelError):
    """An entry, or its place in its log, breaks a rule of Bamboo."""

    code: ClassVar[str] = "bamboo"


class TruncatedError(BambooError):
    """The bytes end before the entry does."""

    code: ClassVar[str] = "bamboo.truncated"


class TrailingBytesError(BambooError):
    """Bytes follow the signature; they would change the entry's hash without being signed."""

    code: ClassVar[str] = "bamboo.trailing_bytes"


class TagError(BambooError):
    """The first byte is neither 0 (regular) nor 1 (end of log)."""

    code: ClassVar[str] = "bamboo.tag"


class NumberFormError(BambooError):
    """A number is not a VarU64 in its shortest form."""

    code: ClassVar[str] = "bamboo.number_form"


class SeqNumError(BambooError):
    """The sequence number is 0, or not the one that is expected here."""

    code: ClassVar[str] = "bamboo.seq_num"


class BacklinkMissingError(BambooError):
    """An entry after the first carries no backlink."""

    code: ClassVar[str] = "bamboo.backlink_missing"


class BacklinkUnexpectedError(BambooError):
    """The first entry of a log carries a link."""

    code: ClassVar[str] = "bamboo.backlink_unexpected"


class SkiplinkMissingError(BambooError):
    """The sequence number asks for a skiplink and the entry carries none."""

    code: ClassVar[str] = "bamboo.skiplink_missing"


class SkiplinkUnexpectedError(BambooError):
    """A skiplink is carried where it would lead to the same entry as the backlink."""

    code: ClassVar[str] = "bamboo.skiplink_unexpected"


class SkiplinkIdenticalError(BambooError):
    """Skiplink and backlink are the same hash, although they name different entries."""

    code: ClassVar[str] = "bamboo.skiplink_identical"


class HashFormError(BambooError):
    """A link or the payload hash is not a hash of the log's flavour."""

    code: ClassVar[str] = "bamboo.hash_form"


class SignatureError(BambooError):
    """The signature is not the author's over these bytes."""

    code: ClassVar[str] = "bamboo.signature"


class PayloadSizeError(BambooError):
    """The payload's size is not the one that the entry states."""

    code: ClassVar[str] = "bamboo.payload_size"


class PayloadHashError(BambooError):
    """The payload's hash is not the one that the entry states."""

    code: ClassVar[str] = "bamboo.payload_hash"


class BacklinkMismatchError(BambooError):
    """The backlink is not the hash of the entry before."""

    code: ClassVar[str] = "bamboo.backlink_mismatch"


class SkiplinkMismatchError(BambooError):
    """The skiplink is not the hash of the entry that it names."""

    code: ClassVar[str] = "bamboo.skiplink_mismatch"


class BacklinkUnknownError(BambooError):
    """The entry before is not held, so the backlink cannot be checked yet."""

    code: ClassVar[str] = "bamboo.backlink_unknown"


class SkiplinkUnknownError(BambooError):
    """The entry that the skiplink names is not held, so it cannot be checked yet."""

    code: ClassVar[str] = "bamboo.skiplink_unknown"


class AfterEndOfLogError(BambooError):
    """The log was ended by its author at a lower sequence number."""

    code: ClassVar[str] = "bamboo.after_end_of_log"


class ForkError(BambooError):
    """Two different entries of one log have the same sequence number."""

    code: ClassVar[str] = "bamboo.fork"


class LogIdError(BambooError):
    """The log id is not the one that this entry must have."""

    code: ClassVar[str] = "bamboo.log_id"
