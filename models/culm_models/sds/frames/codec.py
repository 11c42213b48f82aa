"""Encoding of frames: four bytes of length (big-endian), then a CBOR array of the kind and its fields.

Every field is checked here, once, so that no later code has to check it. A length above the limit is refused
with its header: no memory is allocated for an announced length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from culm_models import cbor
from culm_models.sds.errors import (
    FrameContentError,
    FrameKindError,
    FrameShapeError,
    FrameTooLargeError,
    FrameTruncatedError,
)
from culm_models.sds.frames import messages as frames
from culm_models.sds.frames.messages import Frame
from culm_models.sds.wire.messages import HistoryEntry

LENGTH_BYTES = 4
MAX_DEPTH = 6
MAX_ITEMS = 4_096
"""Limit of CBOR items in a frame, at every depth; the largest `Fetched` has 3,078."""
# The largest message in any profile, with the other fields of its frame.
DEFAULT_MAX_FRAME_BYTES = 1024 * 1024 + 64 * 1024

_MAX_UINT = 2**64 - 1
_MAX_TEXT_BYTES = 4_096
_MAX_SETTING_BYTES = 256
_PROFILES = ("spec", "js", "nim")

Check = Callable[[Any], Any]
Item = TypeVar("Item")


class _Wrong(Exception):
    """A malformed field; the text says what it should be."""


# Checks of fields.


def _text(max_bytes: int, *, empty: bool = False) -> Check:
    def check(item: Any) -> str:
        if type(item) is not str or not (empty or item) or len(item.encode()) > max_bytes:
            raise _Wrong(f"text of {0 if empty else 1} to {max_bytes} bytes")
        return item

    return check


def _bytes(max_bytes: int | None = None, *, exactly: int | None = None) -> Check:
    def check(item: Any) -> bytes:
        if type(item) is not bytes or (exactly is not None and len(item) != exactly):
            raise _Wrong("bytes" if exactly is None else f"{exactly} bytes")
        if max_bytes is not None and len(item) > max_bytes:
            raise _Wrong(f"at most {max_bytes} bytes")
        return item

    return check


def _uint(item: Any) -> int:
    if type(item) is not int or not 0 <= item <= _MAX_UINT:
        raise _Wrong("an unsigned integer of 64 bits")
    return item


def _bool(item: Any) -> bool:
    if type(item) is not bool:
        raise _Wrong("true or false")
    return item


def _profile(item: Any) -> str:
    if item not in _PROFILES or type(item) is not str:
        raise _Wrong("one of spec, js, nim")
    return item


def _optional(check: Check) -> Check:
    return lambda item: None if item is None else check(item)


def _tuple_of(check: Check, max_items: int) -> Check:
    def check_all(items: Any) -> tuple[Any, ...]:
        if type(items) is not list or len(items) > max_items:
            raise _Wrong(f"an array of at most {max_items}")
        return tuple(check(item) for item in items)

    return check_all


def _row(*checks: Check) -> Check:
    def check_row(items: Any) -> tuple[Any, ...]:
        if type(items) is not list or len(items) != len(checks):
            raise _Wrong(f"an array of {len(checks)}")
        return tuple(check(item) for check, item in zip(checks, items, strict=True))

    return check_row


def _map(max_members: int, check: Check) -> Check:
    check_name = _text(frames.MAX_NAME_BYTES)

    def check_map(items: Any) -> Mapping[str, Any]:
        if type(items) is not dict or len(items) > max_members:
            raise _Wrong(f"a map of at most {max_members}")
        return {check_name(name): check(item) for name, item in items.items()}

    return check_map


def _setting(item: Any) -> Any:
    if type(item) not in (int, float, str, bool):
        raise _Wrong("a number, text, true or false")
    return _text(_MAX_SETTING_BYTES, empty=True)(item) if type(item) is str else item


_channel_id = _text(frames.MAX_CHANNEL_ID_BYTES)
_participant_id = _text(frames.MAX_PARTICIPANT_ID_BYTES, empty=True)
_message_id = _text(frames.MAX_MESSAGE_ID_BYTES, empty=True)
_hint = _optional(_bytes(frames.MAX_HINT_BYTES))
_cursor = _bytes(frames.MAX_CURSOR_BYTES)
_token = _bytes(exactly=frames.TOKEN_BYTES)
_anything: Check = lambda item: item  # noqa: E731  # the CBOR door has bounded it
_entry_row = _row(_message_id, _hint, _optional(_participant_id))


def _entry(item: Any) -> HistoryEntry:
    return HistoryEntry(*_entry_row(item))


_KINDS: dict[int, tuple[type[Frame], tuple[Check, ...]]] = {
    0: (frames.Hello, (_uint, _uint, _uint)),
    1: (
        frames.Join,
        (
            _channel_id,
            _profile,
            _text(frames.MAX_PARTICIPANT_ID_BYTES),
            _bool,
            _optional(_cursor),
            _uint,
            _map(frames.MAX_SETTINGS, _setting),
        ),
    ),
    2: (frames.Joined, (_channel_id,)),
    3: (frames.Mark, (_channel_id, _cursor, _bool)),
    4: (frames.Leave, (_channel_id, _bool)),
    5: (frames.SdsMessage, (_channel_id, _bytes(), _hint)),
    6: (frames.Send, (_channel_id, _token, _bytes(), _bool)),
    7: (frames.Accepted, (_channel_id, _token)),
    8: (
        frames.EventFrame,
        (
            _channel_id,
            _optional(_uint),
            _text(_MAX_TEXT_BYTES),
            _optional(_participant_id),
            _message_id,
            _uint,
            _map(frames.MAX_SETTINGS, _anything),
            _optional(_bytes()),
            _optional(_cursor),
        ),
    ),
    9: (frames.Fetch, (_channel_id, _uint, _tuple_of(_entry, frames.MAX_ENTRIES))),
    10: (
        frames.Fetched,
        (_channel_id, _uint, _tuple_of(_row(_bytes(), _hint), frames.MAX_WIRES), _bool),
    ),
    11: (frames.AskHead, (_channel_id,)),
    12: (
        frames.Head,
        (_channel_id, _tuple_of(_row(_uint, _message_id), frames.MAX_HEADS)),
    ),
    13: (
        frames.Refused,
        (
            _text(_MAX_TEXT_BYTES),
            _text(_MAX_TEXT_BYTES, empty=True),
            _text(frames.MAX_CHANNEL_ID_BYTES, empty=True),
            _optional(_token),
        ),
    ),
}
_NUMBERS = {frame: number for number, (frame, _) in _KINDS.items()}
_FIELDS = {frame: tuple(field.name for field in dataclasses.fields(frame)) for frame in _NUMBERS}
assert all(len(_FIELDS[frame]) == len(checks) for frame, checks in _KINDS.values()), "a check a field"


def encode(frame: Frame) -> bytes:
    """Encode a frame with its length in front."""
    kind = type(frame)
    fields = (_plain(getattr(frame, name)) for name in _FIELDS[kind])
    body = cbor.dumps((_NUMBERS[kind], *fields))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return [_plain(item) for item in value]
    if type(value) is HistoryEntry:
        return [value.message_id, value.retrieval_hint, value.sender_id]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def decode(body: bytes) -> Frame:
    """Decode a frame from its bytes without the length. Raises a `FrameError`."""
    try:
        items = cbor.loads(body, max_depth=MAX_DEPTH, max_items=MAX_ITEMS)
    except cbor.CborError as error:
        raise FrameContentError(f"{error.code}: {error}") from error
    if type(items) is not list or not items or type(items[0]) is not int:
        raise FrameShapeError("a frame is an array that begins with its kind")
    kind_and_checks = _KINDS.get(items[0])
    if kind_and_checks is None:
        raise FrameKindError(f"there is no frame of the kind {items[0]}")
    kind, checks = kind_and_checks
    if len(items) - 1 != len(checks):
        raise FrameShapeError(f"{kind.__name__} has {len(checks)} fields, not {len(items) - 1}")
    values = []
    for name, check, item in zip(_FIELDS[kind], checks, items[1:], strict=True):
        try:
            values.append(check(item))
        except _Wrong as wrong:
            raise FrameShapeError(f"{kind.__name__}.{name} is not {wrong}") from None
    return kind(*values)


class FrameReader:
    """Splits one direction of a stream into frames, wherever the bytes were split.

    Frames are decoded one at a time, on request, so that a reader may let others run in between. After an
    error the stream cannot continue.
    """

    __slots__ = ("_buffer", "_start", "max_bytes")

    def __init__(self, max_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._start = 0

    @property
    def pending(self) -> int:
        """The number of bytes held that are not a complete frame yet, or were not requested."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        del self._buffer[: self._start]
        self._start = 0
        self._buffer += data

    def end(self) -> None:
        """Take the end of the stream. Raises `FrameTruncatedError` if it falls within a frame."""
        if self.pending:
            raise FrameTruncatedError(f"the stream ended {self.pending} bytes into a frame")

    def next(self) -> Frame | None:
        """Return the next complete frame; None if there is none. Raises its `FrameError`."""
        buffer, start = self._buffer, self._start
        if len(buffer) - start < LENGTH_BYTES:
            return None
        size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big")
        if not 0 < size <= self.max_bytes:
            raise FrameTooLargeError(f"a frame of {size} bytes where 1 to {self.max_bytes} are taken")
        end = start + LENGTH_BYTES + size
        if end > len(buffer):
            return None
        frame = decode(bytes(memoryview(buffer)[start + LENGTH_BYTES : end]))
        self._start = end
        return frame

    def frames(self) -> Iterator[Frame]:
        """Yield all complete frames, each decoded on request."""
        while (frame := self.next()) is not None:
            yield frame
