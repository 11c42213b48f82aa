"""Reader of runs of messages in their usual shapes: entries, and types 20 to 26 of set reconciliation.

Such messages arrive by the ten thousand, and their shapes are few: heads of known bytes around keys and
numbers of known sizes. They are sliced here without finding the end of the item first. All other bytes are
left to the strict reader (`cbor.ItemScanner`, `codec.decode`), which returns the same messages for everything
that is read here, and which alone reports errors.
"""

from binascii import Error as HexError
from binascii import hexlify, unhexlify
from collections.abc import Callable
from typing import Final

from culm_models.frozen import unfrozen
from culm_models.p2panda.wire import compact
from culm_models.p2panda.wire.messages import (
    MAX_FINGERPRINT_BYTES,
    TYPE_DONE,
    TYPE_EMPTY_PAYLOAD,
    TYPE_EMPTY_SET,
    TYPE_ENTRY,
    TYPE_FINGERPRINT,
    TYPE_LOWER_BOUND,
    TYPE_PAYLOAD,
    TYPE_TERMINAL,
    Bound,
    EntryMessage,
    Message,
)
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)

# Heads of CBOR (RFC 8949, section 3).
_ARRAY_OF_2: Final = 0x82
_ARRAY_OF_3: Final = 0x83
_ARRAY_OF_4: Final = 0x84
_ARRAYS_OF_3_TO_5: Final = frozenset((0x83, 0x84, 0x85))
_BYTES: Final = 0x40
_BYTES_1: Final = 0x58
_BYTES_2: Final = 0x59
_TEXT_1: Final = 0x78
_FALSE: Final = 0xF4
_TRUE: Final = 0xF5
_LONGER: Final = 0x18
_NUMBER_SIZES: Final = {0x18: 1, 0x19: 2, 0x1A: 4, 0x1B: 8}

_KEY_SIZE: Final = 32
_HEX_KEY_SIZE: Final = 64
_HEX_BOUND_HEAD: Final = b"\x83\x78\x40"
_HEX_BOUND_SIZE: Final = 3 + _HEX_KEY_SIZE + 2
_ZEROS: Final = b"\x00\x00"

_NewEntry = unfrozen(EntryMessage)
_NewFingerprint = unfrozen(Fingerprint)
_NewPayload = unfrozen(Payload)
_NewDone = unfrozen(Done)
_NewEmptyPayload = unfrozen(EmptyPayload)


class _UnusualError(Exception):
    """Leaves the reader: these bytes are for the strict reader."""


def read(
    data: bytes, start: int, max_bytes: int, messages: list[Message], count_bytes: Callable[[int, int], None]
) -> int:
    """Append the messages that begin at `start`, of at most `max_bytes` each; return where they end.

    The bytes from there on are unusual, malformed, or unfinished. `count_bytes` is called with a session id
    of messages of set reconciliation and their size in bytes, once for consecutive messages of one session.
    """
    size = len(data)
    run_id, run_start = -1, start
    # These errors mean that the last bytes are still to come, or that the bytes are unusual.
    try:
        while start < size:
            at = start + 2
            message: Message
            count = data[start]
            kind = data[start + 1]
            if kind == _LONGER:
                kind = data[at]
                at += 1
                if kind < _LONGER:
                    break
            elif kind > _LONGER:
                # The head of a longer number, not the types 25 and 26 themselves.
                break
            session_id = data[at]
            at += 1
            if session_id >= _LONGER:
                session_id, at = _number(data, at, session_id)
            if kind == TYPE_FINGERPRINT and count == _ARRAY_OF_4:
                size_byte = data[at]
                if _BYTES <= size_byte < _BYTES_1:
                    begin = at + 1
                    end = begin + size_byte - _BYTES
                else:
                    begin, end = _octets(data, at)
                    if end - begin > MAX_FINGERPRINT_BYTES:
                        break
                upper_bound, at = _bound(data, end)
                message = _NewFingerprint(session_id, data[begin:end], upper_bound)
                message.__class__ = Fingerprint
            elif kind == TYPE_PAYLOAD and count in _ARRAYS_OF_3_TO_5:
                value, at = _triple(data, at)
                can_respond = upper_bound = None
                if count != _ARRAY_OF_3:
                    can_respond = _FLAGS.get(data[at])
                    if can_respond is None:
                        break
                    at += 1
                    if count > _ARRAY_OF_4:
                        upper_bound, at = _bound(data, at)
                message = _NewPayload(session_id, value, can_respond, upper_bound)
                message.__class__ = Payload
            elif kind == TYPE_DONE and count == _ARRAY_OF_3:
                upper_bound, at = _bound(data, at)
                message = _NewDone(session_id, upper_bound)
                message.__class__ = Done
            elif kind == TYPE_ENTRY and count == _ARRAY_OF_4:
                begin, end = _octets(data, at)
                operation_begin, at = _octets(data, end)
                message = _NewEntry(session_id, data[begin:end], data[operation_begin:at])
                message.__class__ = EntryMessage
            elif kind == TYPE_EMPTY_PAYLOAD and count == _ARRAY_OF_3:
                upper_bound, at = _bound(data, at)
                message = _NewEmptyPayload(session_id, upper_bound)
                message.__class__ = EmptyPayload
            elif kind == TYPE_LOWER_BOUND and count == _ARRAY_OF_3:
                upper_bound, at = _bound(data, at)
                message = LowerBound(session_id, upper_bound)
            elif kind == TYPE_TERMINAL and count == _ARRAY_OF_2:
                message = Terminal(session_id)
            elif kind == TYPE_EMPTY_SET and count == _ARRAY_OF_3:
                can_respond = _FLAGS.get(data[at])
                if can_respond is None:
                    break
                at += 1
                message = EmptySet(session_id, can_respond)
            else:
                break
            if at > size or at - start > max_bytes:
                break
            messages.append(message)
            if session_id != run_id or kind == TYPE_ENTRY:
                if run_start < start:
                    count_bytes(run_id, start - run_start)
                run_id, run_start = session_id, at if kind == TYPE_ENTRY else start
            start = at
    except (IndexError, HexError, _UnusualError):
        pass
    if run_start < start:
        count_bytes(run_id, start - run_start)
    return start


_FLAGS: Final = {_FALSE: False, _TRUE: True}


def _number(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return a number whose head began with `first` before `at`, and where it ends."""
    size = _NUMBER_SIZES.get(first)
    if size is None or at + size > len(data):
        raise _UnusualError
    return int.from_bytes(data[at : at + size], "big"), at + size


def _octets(data: bytes, at: int) -> tuple[int, int]:
    """Return start and end of the content of a byte string with a head of at most 3 bytes."""
    first = data[at]
    if first == _BYTES_1:
        return at + 2, at + 2 + data[at + 1]
    if first == _BYTES_2:
        return at + 3, at + 3 + (data[at + 1] << 8 | data[at + 2])
    if _BYTES <= first < _BYTES_1:
        return at + 1, at + 1 + first - _BYTES
    raise _UnusualError


def _triple(data: bytes, at: int) -> tuple[Bound, int]:
    """Return an array of key, log id and sequence number, and where it ends."""
    if data[at] != _ARRAY_OF_3:
        raise _UnusualError
    spelled, size = data[at + 1], data[at + 2]
    at += 3
    if spelled == _TEXT_1 and size == _HEX_KEY_SIZE:
        text = data[at : at + _HEX_KEY_SIZE]
        at += _HEX_KEY_SIZE
        public_key = unhexlify(text)
        if hexlify(public_key) != text:
            raise _UnusualError
    elif spelled == _BYTES_1 and size == _KEY_SIZE:
        public_key = data[at : at + _KEY_SIZE]
        at += _KEY_SIZE
    else:
        raise _UnusualError
    # An incomplete key raises `IndexError` here, because there is no byte at this position.
    log_id = data[at]
    at += 1
    if log_id >= _LONGER:
        log_id, at = _number(data, at, log_id)
    seq_num = data[at]
    at += 1
    if seq_num >= _LONGER:
        seq_num, at = _number(data, at, seq_num)
    return (public_key, log_id, seq_num), at


def _bound(data: bytes, at: int) -> tuple[Bound, int]:
    """Return a bound in either form, and where it ends."""
    if data[at] != _ARRAY_OF_3:
        begin, end = _octets(data, at)
        if end - begin > _KEY_SIZE:
            raise _UnusualError
        return (compact.padded(data[begin:end]), 0, 0), end
    # The form of nearly all bounds: a key in hex, log id and sequence number 0.
    end = at + _HEX_BOUND_SIZE
    if data[at : at + 3] == _HEX_BOUND_HEAD and data[end - 2 : end] == _ZEROS:
        text = data[at + 3 : end - 2]
        public_key = unhexlify(text)
        if hexlify(public_key) == text:
            return (public_key, 0, 0), end
    return _triple(data, at)
