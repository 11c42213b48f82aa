"""Encoding of control messages ("Encodings: control channel"; R16 to R21).

    0            grant         credit
    1..127       adjust        id [threshold] [end] [upper] [min] [max]
    128..135     cancel        id, then what the code requires
    136..159     unused
    160..255     propose       id key log start [lower] min max [hash] [threshold] [end upper] [offset]

Every message has at most a few hundred bytes, so its beginning can be buffered until the rest arrives.
"""

from typing import Final

from culm_models import varu64
from culm_models.bamboo.entry import decode_entry, max_entry_size, measure_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    ControlMessage,
    Eagerness,
    Grant,
    Propose,
    Setup,
)
from culm_models.bamboo_p2p.wire.numbers import Incomplete, Reader
from culm_models.keys import PUBLIC_KEY_SIZE

_EAGERNESS_SHIFT: Final = 5
_FINITE, _OFFSET, _PAYLOAD_ONLY, _SPARSE, _MANDATORY = 0x10, 0x08, 0x04, 0x02, 0x01
_MAY_SKIP, _END, _UPPER, _MIN, _MAX = 0x10, 0x08, 0x04, 0x02, 0x01
_PROPOSE: Final = 0x80
_ENTRIES_OF: Final = {CancelCode.HASH_MISMATCH: 1, CancelCode.FORKED: 2}


def encode_control(message: ControlMessage) -> bytes:
    """Encode a control message. Raises `Malformed` if its fields do not fit together."""
    if isinstance(message, Grant):
        return b"\x00" + varu64.encode(message.credit)
    if isinstance(message, Propose):
        return _encode_propose(message)
    if isinstance(message, Adjust):
        return _encode_adjust(message)
    if len(message.entries) != _ENTRIES_OF.get(message.code, 0) or (
        (message.seq_num is not None) != (message.code is CancelCode.END_OF_LOG)
    ):
        raise Malformed(f"a cancel with {message.code} carries other evidence")
    evidence = b"" if message.seq_num is None else varu64.encode(message.seq_num)
    return bytes((message.code,)) + varu64.encode(message.id) + evidence + b"".join(message.entries)


def decode_control(
    data: bytes | bytearray | memoryview, offset: int, flavour: HashFlavour, *, strict: bool = False
) -> tuple[ControlMessage, int] | None:
    """Decode the message at `offset`. Returns it with the offset of its end, or None if bytes are missing.

    Raises `Malformed`.
    """
    reader = Reader(data, offset, strict=strict)
    try:
        return _decode(reader, flavour), reader.offset
    except Incomplete:
        return None


def _encode_propose(message: Propose) -> bytes:
    begins_with_payload = message.offset is not None
    needs_hash = begins_with_payload or message.lower != 1
    if (
        (message.lower is None) != begins_with_payload
        or (message.expected_hash is not None) != needs_hash
        or (message.end is None) != (message.upper is None)
        or (message.threshold is not None) != (message.eagerness is Eagerness.THRESHOLD)
    ):
        raise Malformed("fields of a proposal do not belong together")
    first = (
        _PROPOSE
        | message.eagerness << _EAGERNESS_SHIFT
        | (_FINITE if message.end is not None else 0)
        | (_OFFSET if begins_with_payload else 0)
        | (_PAYLOAD_ONLY if message.payload_only else 0)
        | (_SPARSE if message.sparse else 0)
        | (_MANDATORY if message.mandatory else 0)
    )
    return b"".join(
        (
            bytes((first,)),
            varu64.encode(message.id),
            message.public_key,
            varu64.encode(message.log_id),
            varu64.encode(message.start),
            _optional(message.lower),
            varu64.encode(message.min_size),
            varu64.encode(message.max_size),
            message.expected_hash or b"",
            _optional(message.threshold),
            _optional(message.end),
            _optional(message.upper),
            _optional(message.offset),
        )
    )


def _encode_adjust(message: Adjust) -> bytes:
    first = (
        (message.eagerness or 0) << _EAGERNESS_SHIFT
        | (_MAY_SKIP if message.may_skip else 0)
        | (_END if message.end is not None else 0)
        | (_UPPER if message.upper is not None else 0)
        | (_MIN if message.min_size is not None else 0)
        | (_MAX if message.max_size is not None else 0)
    )
    if not first or (message.threshold is not None) != (message.eagerness is Eagerness.THRESHOLD):
        raise Malformed("an adjustment changes something, and has a threshold with that eagerness alone")
    numbers = (message.threshold, message.end, message.upper, message.min_size, message.max_size)
    return bytes((first,)) + varu64.encode(message.id) + b"".join(map(_optional, numbers))


def _optional(value: int | None) -> bytes:
    return b"" if value is None else varu64.encode(value)


def _decode(reader: Reader, flavour: HashFlavour) -> ControlMessage:
    first = reader.byte()
    if first == 0:
        return Grant(reader.number())
    if first < _PROPOSE:
        return _decode_adjust(first, reader)
    if first >> _EAGERNESS_SHIFT & 3:
        return _decode_propose(first, reader, flavour)
    if first > CancelCode.FORKED:
        raise Malformed(f"no control message begins with the byte {first}")
    code = CancelCode(first)
    id_ = reader.number()
    if code is CancelCode.END_OF_LOG:
        return Cancel(id_, code, seq_num=reader.number())
    return Cancel(id_, code, entries=tuple(_entry(reader, flavour) for _ in range(_ENTRIES_OF.get(code, 0))))


def _decode_adjust(first: int, reader: Reader) -> Adjust:
    id_ = reader.number()
    eagerness = Eagerness(first >> _EAGERNESS_SHIFT) if first >> _EAGERNESS_SHIFT else None
    threshold = reader.number() if eagerness is Eagerness.THRESHOLD else None
    end, upper, min_size, max_size = (
        reader.number() if first & flag else None for flag in (_END, _UPPER, _MIN, _MAX)
    )
    return Adjust(id_, eagerness, threshold, bool(first & _MAY_SKIP), end, upper, min_size, max_size)


def _decode_propose(first: int, reader: Reader, flavour: HashFlavour) -> Propose:
    eagerness = Eagerness(first >> _EAGERNESS_SHIFT & 3)
    id_ = reader.number()
    public_key = reader.take(PUBLIC_KEY_SIZE)
    log_id, start = reader.number(), reader.number()
    lower = None if first & _OFFSET else reader.number()
    min_size, max_size = reader.number(), reader.number()
    expected_hash = None if lower == 1 else read_hash(reader, flavour)
    threshold = reader.number() if eagerness is Eagerness.THRESHOLD else None
    end, upper = (reader.number(), reader.number()) if first & _FINITE else (None, None)
    offset = reader.number() if first & _OFFSET else None
    return Propose(
        id_,
        public_key,
        log_id,
        start,
        lower,
        min_size,
        max_size,
        expected_hash,
        eagerness,
        threshold,
        end,
        upper,
        offset,
        payload_only=bool(first & _PAYLOAD_ONLY),
        sparse=bool(first & _SPARSE),
        mandatory=bool(first & _MANDATORY),
    )


def read_hash(reader: Reader, flavour: HashFlavour) -> bytes:
    """Read a hash of the connection's flavour (R21).

    Raises `Malformed` as soon as its first bytes differ from the flavour's, and `Incomplete`.
    """
    begun = reader.peek(len(flavour.prefix))
    if not flavour.prefix.startswith(begun):
        raise Malformed(f"no {flavour.name} hash begins with {begun.hex()}")
    return reader.take(flavour.size)


def _entry(reader: Reader, flavour: HashFlavour) -> bytes:
    try:
        size = measure_entry(reader.peek(max_entry_size(flavour)), flavour)
        if size is None:
            raise Incomplete
        entry = reader.take(size)
        decode_entry(entry, flavour)
    except BambooError as error:
        raise Malformed(f"evidence that is no entry: {error}") from None
    return entry


_SENDS_GREEDILY = 0x02
_ACCEPTS_GREEDY = 0x01


def encode_setup(setup: Setup) -> bytes:
    """Encode a setup in 3 to 19 bytes."""
    flags = (_SENDS_GREEDILY if setup.sends_greedily else 0) | (
        _ACCEPTS_GREEDY if setup.accepts_greedy else 0
    )
    return bytes((flags,)) + varu64.encode(setup.send_window) + varu64.encode(setup.receive_window)


def decode_setup(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[Setup, int] | None:
    """Decode the setup at `offset`. Returns it with the offset of its end, or None if bytes are missing.

    Any bytes are a valid setup.
    """
    reader = Reader(data, offset)
    try:
        flags = reader.byte()
        setup = Setup(
            bool(flags & _SENDS_GREEDILY), bool(flags & _ACCEPTS_GREEDY), reader.number(), reader.number()
        )
    except Incomplete:
        return None
    return setup, reader.offset
