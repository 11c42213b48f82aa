"""`rejected`: bytes that were refused, why, and who brought them. `rejection` makes the record."""

from typing import Annotated, Final

from culm_topics.records.declare import Record, record
from culm_topics.records.keys import PeerId
from culm_topics.records.kinds import named, rule
from culm_topics.topic_spec import MAX_MESSAGE_BYTES

Source = tuple[str, int, int]
"""(topic, partition, offset) of the record that was refused."""

MAX_REJECTED_DETAIL: Final = 1_000
"""Characters of the detail; a longer one is cut."""
MAX_REJECTED_BYTES: Final = MAX_MESSAGE_BYTES - 8 * 1024
"""Entry and operation together; larger ones are left out. What else the record says has room beside them."""


@record("rejected", "what was refused, and why. Key: log key or CID, or empty when none can be told.")
class RejectedRecord(Record):
    """Value of `rejected`; its key is the log's key, or empty when no log can be told.

    `code` is the stable code of the error. Of a fork, `entry` is the refused entry and `first` the one that
    stays: together the proof. Of two entries that came as evidence and prove nothing they are the second and
    the first. Of a record that cannot be decoded, `entry` is the raw value.
    """

    code: Annotated[str, 'stable code, for example "bamboo.signature"']
    detail: Annotated[str, "for people; at most 1,000 characters, of a longer one the first"]
    entry: Annotated[bytes | None, "refused entry, or the raw value of a record that cannot be decoded"] = (
        None
    )
    operation: Annotated[bytes | None, "both null where they are too large together; the detail says so"] = (
        None
    )
    brought_by: PeerId | None = None
    source: Annotated[Source, named("topic", "partition", "offset"), rule("source")] | None = None
    seq_num: int | None = None
    first: Annotated[
        bytes | None,
        "of a fork: the entry that stays; of two that came as bogus evidence: the first",
    ] = None


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
    """The record of what was refused, within the limits of the topic: everybody who refuses makes it here.

    A detail of more than `MAX_REJECTED_DETAIL` characters is cut. Entry and operation of more than
    `MAX_REJECTED_BYTES` are left out, and the detail ends in their size: `source` says where they stand.
    """
    # What a stranger wrote and an error repeats may hold half of a surrogate pair, which no record can.
    detail = detail.encode("utf-8", "backslashreplace").decode()[:MAX_REJECTED_DETAIL]
    size = len(entry or b"") + len(operation or b"")
    if size > MAX_REJECTED_BYTES:
        entry = operation = None
        note = f" ({size} bytes, too many to be repeated here)"
        detail = detail[: MAX_REJECTED_DETAIL - len(note)] + note
    return RejectedRecord(code, detail, entry, operation, brought_by, source, seq_num, first)
