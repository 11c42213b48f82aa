"""`rejected`: bytes that were refused, the reason and their origin. `rejection` makes the record."""

from typing import Annotated, Final

from culm_models.errors import CulmError
from culm_topics.records.declare import Record, record
from culm_topics.records.keys import LOG_KEY_SIZE, PeerId
from culm_topics.records.kinds import named, rule
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

Source = tuple[str, int, int]
"""(topic, partition, offset) of the record that was refused."""

MAX_REJECTED_DETAIL: Final = 1_000
"""Limit of the detail, in characters; longer text is cut."""
MAX_REJECTED_BYTES: Final = MAX_MESSAGE_BYTES - 8 * 1024
"""Limit of entry and operation together, in bytes; larger ones are left out so that the rest of the record
fits."""


@record("rejected", "rejected data, and why. Key: log key or CID, or empty if neither is known.")
class RejectedRecord(Record):
    """Value of `rejected`; its key is the log's key, or empty if no log can be determined.

    `code` is the stable code of the error. For a fork, `entry` is the refused entry and `first` the entry
    that is kept; together they are the proof. For two entries that were sent as evidence and prove nothing,
    `entry` is the second and `first` the first. For a record that cannot be decoded, `entry` is the raw
    value.
    """

    code: Annotated[str, 'stable code, for example "bamboo.signature"']
    detail: Annotated[str, "for people; the first 1,000 characters"]
    entry: Annotated[bytes | None, "refused entry, or the raw value of a record that cannot be decoded"] = (
        None
    )
    operation: Annotated[
        bytes | None, "entry and operation are null if they are too large together; the detail says so"
    ] = None
    brought_by: PeerId | None = None
    source: Annotated[Source, named("topic", "partition", "offset"), rule("source")] | None = None
    seq_num: int | None = None
    first: Annotated[
        bytes | None,
        "of a fork: the entry that is kept; of bogus evidence: the first of the two entries",
    ] = None


def code_prefix(code: str) -> bytes:
    """Return the bytes with which every record of `rejected` with this code begins, and no other one."""
    encoded = RejectedRecord(code, "").encode()
    return encoded[: encoded.index(code.encode()) + len(code.encode())]


def rejection(
    code: str,
    detail: str,
    *,
    entry: bytes | None = None,
    operation: bytes | None = None,
    brought_by: bytes | None = None,
    source: Source | None = None,
    seq_num: int | None = None,
    first: bytes | None = None,
) -> RejectedRecord:
    """Make the record of refused data, within the limits of the topic. All code that refuses data uses it.

    A detail of more than `MAX_REJECTED_DETAIL` characters is cut. If entry and operation together exceed
    `MAX_REJECTED_BYTES`, they are left out, and the detail ends with their size: `source` says where they
    are.
    """
    # The error may quote a peer's text that contains half of a surrogate pair, which no record can hold.
    detail = detail.encode("utf-8", "backslashreplace").decode()[:MAX_REJECTED_DETAIL]
    size = len(entry or b"") + len(operation or b"")
    if size > MAX_REJECTED_BYTES:
        entry = operation = None
        note = f" ({size} bytes, too many to be repeated here)"
        detail = detail[: MAX_REJECTED_DETAIL - len(note)] + note
    return RejectedRecord(code, detail, entry, operation, brought_by, source, seq_num, first)


def reject_malformed(
    error: CulmError, value: bytes | None, source: Source, *, key: bytes | None = None
) -> tuple[bytes, bytes]:
    """Return (key, value) of the record of `rejected` for a malformed record of another topic.

    `key` is that of the record if it may be a log key; any other key becomes empty.
    """
    log = key if key is not None and len(key) == LOG_KEY_SIZE else b""
    return log, rejection(error.code, str(error), entry=value, source=source).encode()
