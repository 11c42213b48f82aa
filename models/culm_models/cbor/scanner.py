"""CBOR heads: written, and read to find where an item ends in a stream that arrives in pieces (RFC 8949, 3).

A p2panda stream is a plain concatenation of CBOR items, without length prefixes. The scanner reads only heads
and never decodes. It keeps its position when the bytes run out, so that a stream split at every byte costs no
more than an unsplit one. It adds up the sizes that the heads declare before their content arrives: a length
of 2**62 is refused with its head.
"""

import re
from typing import Final

from culm_models.cbor.strict import (
    DEFAULT_MAX_DEPTH,
    CborError,
    DepthError,
    IndefiniteLengthError,
    MalformedError,
    TagError,
    TooLargeError,
    TooManyItemsError,
)

_MAJOR_BYTES = 2
_MAJOR_ARRAY = 4
_MAJOR_MAP = 5
_MAJOR_TAG = 6

# Whole items of one byte: small integers, false, true, null. Long runs of them are skipped in one step.
_ONE_BYTE_ITEMS = re.compile(rb"[\x00-\x17\x20-\x37\xf4-\xf6]+")
_RUN_WORTH_A_SEARCH = 8


NUMBER: Final = 0x00
OCTETS: Final = 0x40


def head(major: int, value: int) -> bytes:
    """Return the shortest head of this major type with this number, length or count."""
    if value < 24:
        return bytes((major | value,))
    if value < 0x100:
        return bytes((major | 24, value))
    if value < 0x10000:
        return bytes((major | 25, value >> 8, value & 0xFF))
    if value < 0x100000000:
        return bytes((major | 26,)) + value.to_bytes(4, "big")
    return bytes((major | 27,)) + value.to_bytes(8, "big")


class ItemScanner:
    """Separates a byte stream into definite-length CBOR items within limits of size and depth.

    An item has at most `max_bytes` and is nested at most `max_depth` deep.

    With `max_items`, an item may contain at most this many items, including itself and those at every depth.
    The items that its containers declare count at once. `items_taken` counts those of all complete items.

    An error ends the stream. Items that were complete before it are still returned, and the next `feed`
    raises the error (at once if there were no items before it), so the outcome does not depend on how the
    stream was split.
    """

    __slots__ = (
        "_buffer",
        "_declared",
        "_missing",
        "_offset",
        "_outer_missing",
        "_outstanding",
        "error",
        "items_taken",
        "max_bytes",
        "max_depth",
        "max_items",
    )

    def __init__(
        self, max_bytes: int, max_depth: int = DEFAULT_MAX_DEPTH, *, max_items: int | None = None
    ) -> None:
        assert max_bytes > 0 and max_depth > 0 and (max_items is None or max_items > 0), "limits are positive"
        self.max_bytes = max_bytes
        self.max_depth = max_depth
        # Every item has at least one byte.
        self.max_items = max_bytes if max_items is None else max_items
        self.items_taken = 0
        self.error: CborError | None = None
        # The bytes of the unfinished item, and the position of its next head (perhaps beyond them).
        self._buffer = bytearray()
        self._offset = 0
        # Number of items that the innermost open container, and the containers around it, are still missing.
        self._missing = 1
        self._outer_missing: list[int] = []
        # The sum of these numbers.
        self._outstanding = 1
        # Number of items: the unfinished item, and the items that its containers have declared.
        self._declared = 1

    @property
    def pending(self) -> int:
        """Number of held bytes of an unfinished item."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Process the next bytes of the stream; return the items that are complete now, in order.

        Raises the `CborError` that ended the stream.
        """
        if self.error is not None:
            raise self.error
        items: list[bytes] = []
        at = 0
        try:
            while at < len(data):
                item, at = self.take(data, at)
                if item is not None:
                    items.append(item)
        except CborError:
            if not items:
                raise
        return items

    def take(self, data: bytes, start: int) -> tuple[bytes | None, int]:
        """Process the bytes of `data` from `start` to the end of one item; return the item and where it ends.

        The item is None if it is still unfinished when the bytes run out; they are held then. Raises the
        `CborError` that ended the stream.
        """
        if self.error is not None:
            raise self.error
        try:
            return self._finish(data, start) if self._buffer else self._cut(data, start)
        except CborError as error:
            self.error = error
            self._buffer = bytearray()
            raise

    def _finish(self, data: bytes, start: int) -> tuple[bytes | None, int]:
        """Continue with the held item."""
        buffered = len(self._buffer)
        # Only bytes that may still belong to the unfinished item are copied to the buffer.
        capacity = self.max_bytes - buffered
        self._buffer += data[start : start + capacity]
        end = self._scan(self._buffer, 0)
        if end is None:
            assert len(data) - start <= capacity, (
                "an item within its limit cannot need more bytes than the limit"
            )
            return None, len(data)
        item = bytes(memoryview(self._buffer)[:end])
        self._buffer = bytearray()
        return item, start + end - buffered

    def _cut(self, data: bytes, start: int) -> tuple[bytes | None, int]:
        """Cut an item off `data`, or hold its first part."""
        end = self._scan(data, start)
        if end is None:
            self._buffer = bytearray(memoryview(data)[start:])
            return None, len(data)
        return data[start:end], end

    def _scan(self, data: bytes | bytearray, start: int) -> int | None:
        """Continue to read heads of the item at `start`; return where it ends, or None if it is unfinished.

        The order of the checks makes an error independent of where the bytes were split: a head's first byte,
        its own size, the depth, and last the size that it declares.
        """
        size = len(data)
        limit = start + self.max_bytes
        offset = start + self._offset
        missing = self._missing
        outer_missing = self._outer_missing
        outstanding = self._outstanding
        while outstanding:
            if not missing:
                missing = outer_missing.pop()
                continue
            if offset >= size:
                break
            first = data[offset]
            major = first >> 5
            argument = first & 31
            head_size = 1
            if argument > 23 or major == _MAJOR_TAG:
                if argument > 27 or major == _MAJOR_TAG:
                    raise _head_fault(first, offset - start)
                head_size += 1 << (argument - 24)
                if offset + head_size > size:
                    if offset + head_size + outstanding - 1 > limit:
                        raise self._too_large()
                    break
                argument = int.from_bytes(data[offset + 1 : offset + head_size], "big")
            offset += head_size
            missing -= 1
            outstanding -= 1
            if offset + outstanding > limit:
                raise self._too_large()
            if major < _MAJOR_BYTES:
                if missing >= _RUN_WORTH_A_SEARCH:
                    run = _ONE_BYTE_ITEMS.match(data, offset, min(size, offset + missing))
                    if run is not None:
                        missing -= run.end() - offset
                        outstanding -= run.end() - offset
                        offset = run.end()
                continue
            if major < _MAJOR_ARRAY:
                offset += argument
            elif major < _MAJOR_TAG and argument:
                if len(outer_missing) == self.max_depth:
                    raise DepthError(f"containers are nested more than {self.max_depth} deep")
                outer_missing.append(missing)
                missing = argument if major == _MAJOR_ARRAY else 2 * argument
                outstanding += missing
                self._declared += missing
            # Every outstanding item takes at least one byte.
            if offset + outstanding > limit:
                raise self._too_large()
            if self._declared > self.max_items:
                raise TooManyItemsError(f"an item that holds more than {self.max_items} items")
        if outstanding or offset > size:
            self._offset = offset - start
            self._missing = missing
            self._outstanding = outstanding
            return None
        self.items_taken += self._declared
        self._offset = 0
        self._missing = self._outstanding = self._declared = 1
        # These containers were closed by their last item.
        outer_missing.clear()
        return offset

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"an item of more than {self.max_bytes} bytes")


def _head_fault(first: int, offset: int) -> CborError:
    major = first >> 5
    open_ended = first & 31 == 31
    if first & 31 > 27 and not (open_ended and _MAJOR_BYTES <= major <= _MAJOR_MAP):
        return MalformedError(f"head {first:02x} at byte {offset} of the item is reserved or ends nothing")
    if open_ended:
        return IndefiniteLengthError(f"a length is left open at byte {offset} of the item")
    return TagError(f"a tag at byte {offset} of the item")
