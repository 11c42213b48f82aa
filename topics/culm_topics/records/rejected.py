"""`rejected`: bytes that were refused, why, and who brought them. `rejection` makes the record."""

from dataclasses import dataclass
from typing import Final

from culm_topics.catalogue.spec import MAX_MESSAGE_BYTES
from culm_topics.records.keys import PEER_ID_SIZE
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

Source = tuple[str, int, int]
"""(topic, partition, offset) of the record that was refused."""

MAX_REJECTED_DETAIL: Final = 1_000
"""Characters of the detail; a longer one is cut."""
MAX_REJECTED_BYTES: Final = MAX_MESSAGE_BYTES - 8 * 1024
"""Entry and operation together; larger ones are left out. What else the record says has room beside them."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """Value of `rejected`; its key is the log's key, or empty when no log can be told.

    `code` is the stable code of the error. Of a fork, `entry` is the refused entry and `first` the one that
    stays: together the proof. Of two entries that came as evidence and prove nothing they are the second and
    the first. Of a record that cannot be decoded, `entry` is the raw value.
    """

    code: str
    detail: str
    entry: bytes | None = None
    operation: bytes | None = None
    brought_by: bytes | None = None
    source: Source | None = None
    seq_num: int | None = None
    first: bytes | None = None

    def encode(self) -> bytes:
        """`[1, code, detail, entry, operation, brought_by, [topic, partition, offset], seq_num, first]`."""
        sound = self.brought_by is None or len(self.brought_by) == PEER_ID_SIZE
        require(sound, "rejected", "brought_by is no peer id")
        return dump(
            FORMAT,
            self.code,
            self.detail,
            self.entry,
            self.operation,
            self.brought_by,
            None if self.source is None else list(self.source),
            self.seq_num,
            self.first,
        )

    @staticmethod
    def decode(value: bytes | None) -> "RejectedRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, code, detail, entry, operation, brought_by, source, seq_num, first = load_array(
            value, "rejected", 9
        )
        if type(code) is not str:
            refuse_item("rejected", "code", code, "text")
        if type(detail) is not str:
            refuse_item("rejected", "detail", detail, "text")
        if brought_by is not None and (type(brought_by) is not bytes or len(brought_by) != PEER_ID_SIZE):
            refuse_item("rejected", "brought_by", brought_by, "32 bytes or null")
        if seq_num is not None and not is_uint(seq_num):
            refuse_item("rejected", "seq_num", seq_num, "an unsigned integer of 64 bits or null")
        size = (
            2
            + text_size(code)
            + text_size(detail)
            + _optional_size("entry", entry)
            + _optional_size("operation", operation)
            + _optional_size("brought_by", brought_by)
            + _source_size(source)
            + (1 if seq_num is None else head_size(seq_num))
            + _optional_size("first", first)
        )
        check_size(value, size, "rejected")
        place = None if source is None else (source[0], source[1], source[2])
        return RejectedRecord(code, detail, entry, operation, brought_by, place, seq_num, first)


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


def _optional_size(name: str, item: object) -> int:
    if item is None:
        return 1
    if type(item) is not bytes:
        refuse_item("rejected", name, item, "bytes or null")
    return string_size(len(item))


def _source_size(source: object) -> int:
    if source is None:
        return 1
    if type(source) is not list or len(source) != 3 or type(source[0]) is not str:
        refuse_item("rejected", "source", source, "[topic, partition, offset] or null")
    _, partition, offset = source
    if not is_uint(partition) or not is_uint(offset):
        refuse_item("rejected", "source", source, "[topic, partition, offset] or null")
    return 1 + text_size(source[0]) + head_size(partition) + head_size(offset)
