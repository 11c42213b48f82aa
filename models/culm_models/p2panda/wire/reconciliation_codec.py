"""The items of the messages of set reconciliation (specification "replication", 2.1: types 20 to 26).

    20  EmptySet      [20, session id, can respond]
    21  LowerBound    [21, session id, bound]
    22  Payload       [22, session id, item], [… , can respond], [… , can respond, bound]
    23  EmptyPayload  [23, session id, bound]
    24  Done          [24, session id, bound]
    25  Fingerprint   [25, session id, fingerprint, bound]
    26  Terminal      [26, session id]

Items and bounds are `[public key, log id, sequence number]`; an item with sequence number 0 states that the
sender holds no entry of that log. Keys are 64 lower-case hex digits; keys and bounds are read in the compact
form, too (`compact`). Optional items are left out, never null. The table is part of that of `codec`;
`fast_decoder` reads the usual messages faster, and `encode_many` writes messages.
"""

from binascii import hexlify
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

from culm_models.cbor.scanner import NUMBER, OCTETS, head
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.errors import FingerprintSizeError, ItemCountError, PublicKeyError
from culm_models.p2panda.wire import compact
from culm_models.p2panda.wire import messages as types
from culm_models.p2panda.wire.items import array, count, flag, key_from_bytes, key_from_hex, octets, u64
from culm_models.p2panda.wire.messages import MAX_FINGERPRINT_BYTES, Bound, Item
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)

_TRIPLE_SIZE: Final = 3


def _session_id(items: list[Any]) -> int:
    return u64(items[1], "the session id")


def _key(value: Any) -> bytes:
    if type(value) is bytes:
        return key_from_bytes(value)
    public_key = key_from_hex(value)
    if public_key.hex() != value:
        raise PublicKeyError("a public key is in lower-case hex digits here")
    return public_key


def _triple(value: Any, name: str) -> tuple[bytes, int, int]:
    public_key, log_id, seq_num = array(value, _TRIPLE_SIZE, name)
    return (
        _key(public_key),
        u64(log_id, f"the log id of {name}"),
        u64(seq_num, f"the sequence number of {name}"),
    )


def _item(value: Any) -> Item:
    return _triple(value, "the value")


def _bound(value: Any, name: str = "the upper bound") -> Bound:
    if type(value) is bytes:
        if len(value) > PUBLIC_KEY_SIZE:
            raise PublicKeyError(f"{name} is spelled with {len(value)} bytes of a key")
        return compact.padded(value), 0, 0
    return _triple(value, name)


def _fingerprint(data: bytes) -> bytes:
    if len(data) > types.MAX_FINGERPRINT_BYTES:
        raise FingerprintSizeError(
            f"a fingerprint has at most {types.MAX_FINGERPRINT_BYTES} bytes, not {len(data)}"
        )
    return data


def _decode_empty_set(items: list[Any]) -> EmptySet:
    count(items, 3, "an empty set message")
    return EmptySet(_session_id(items), flag(items[2], "can_respond"))


def _decode_lower_bound(items: list[Any]) -> LowerBound:
    count(items, 3, "a lower bound message")
    return LowerBound(_session_id(items), _bound(items[2], "the lower bound"))


def _decode_payload(items: list[Any]) -> Payload:
    if not 3 <= len(items) <= 5:
        raise ItemCountError(f"a payload message has 3, 4 or 5 items, not {len(items)}")
    return Payload(
        _session_id(items),
        _item(items[2]),
        flag(items[3], "can_respond") if len(items) > 3 else None,
        _bound(items[4]) if len(items) > 4 else None,
    )


def _decode_empty_payload(items: list[Any]) -> EmptyPayload:
    count(items, 3, "an empty payload message")
    return EmptyPayload(_session_id(items), _bound(items[2]))


def _decode_done(items: list[Any]) -> Done:
    count(items, 3, "a done message")
    return Done(_session_id(items), _bound(items[2]))


def _decode_fingerprint(items: list[Any]) -> Fingerprint:
    count(items, 4, "a fingerprint message")
    data = octets(items[2], "the fingerprint")
    return Fingerprint(_session_id(items), _fingerprint(data), _bound(items[3]))


def _decode_terminal(items: list[Any]) -> Terminal:
    count(items, 2, "a terminal message")
    return Terminal(_session_id(items))


DECODERS: Final[dict[int, Callable[[list[Any]], ReconciliationMessage]]] = {
    types.TYPE_EMPTY_SET: _decode_empty_set,
    types.TYPE_LOWER_BOUND: _decode_lower_bound,
    types.TYPE_PAYLOAD: _decode_payload,
    types.TYPE_EMPTY_PAYLOAD: _decode_empty_payload,
    types.TYPE_DONE: _decode_done,
    types.TYPE_FINGERPRINT: _decode_fingerprint,
    types.TYPE_TERMINAL: _decode_terminal,
}


# `hex` is the specification's form, `compact` that of module `compact`. The heads of the messages never
# change, so they are constants here and the rest is inserted between them.

Form: TypeAlias = Literal["hex", "compact"]
"""The encoding of keys and bounds."""

FORMS: Final[tuple[Form, ...]] = ("hex", "compact")

_SMALL: Final = 1024
_NUMBERS: Final = tuple(head(NUMBER, value) for value in range(_SMALL))
_OCTETS: Final = tuple(head(OCTETS, size) for size in range(MAX_FINGERPRINT_BYTES + 1))
_FLAGS: Final = {False: b"\xf4", True: b"\xf5"}


def encode_many(messages: Iterable[ReconciliationMessage], form: Form = "hex") -> bytes:
    """Encode messages, one after the other. Raises `FingerprintSizeError`."""
    spelled_item, spelled_bound = _SPELLINGS[form]
    parts: list[bytes] = []
    session_id = -1
    number = b""
    message: Any
    for message in messages:
        if message.session_id != session_id:
            session_id = message.session_id
            number = _number(session_id)
        kind = type(message)
        if kind is Fingerprint:
            data = message.fingerprint
            bound = spelled_bound(message.upper_bound)
            parts.append(b"\x84\x18\x19%b%b%b%b" % (number, _octets_head(data), data, bound))
        elif kind is Payload:
            item = spelled_item(message.value)
            if message.can_respond is None:
                parts.append(b"\x83\x16%b%b" % (number, item))
                continue
            flag = _FLAGS[message.can_respond]
            if message.upper_bound is None:
                parts.append(b"\x84\x16%b%b%b" % (number, item, flag))
            else:
                parts.append(b"\x85\x16%b%b%b%b" % (number, item, flag, spelled_bound(message.upper_bound)))
        elif kind is Done:
            parts.append(b"\x83\x18\x18%b%b" % (number, spelled_bound(message.upper_bound)))
        elif kind is EmptyPayload:
            parts.append(b"\x83\x17%b%b" % (number, spelled_bound(message.upper_bound)))
        elif kind is LowerBound:
            parts.append(b"\x83\x15%b%b" % (number, spelled_bound(message.value)))
        elif kind is Terminal:
            parts.append(b"\x82\x18\x1a" + number)
        else:
            assert kind is EmptySet, f"{kind.__name__} is not on the wire"
            parts.append(b"\x83\x14%b%b" % (number, _FLAGS[message.can_respond]))
    return b"".join(parts)


def _number(value: int) -> bytes:
    return _NUMBERS[value] if value < _SMALL else head(NUMBER, value)


def _octets_head(data: bytes) -> bytes:
    if len(data) > MAX_FINGERPRINT_BYTES:
        raise FingerprintSizeError(
            f"a fingerprint has at most {MAX_FINGERPRINT_BYTES} bytes, not {len(data)}"
        )
    return _OCTETS[len(data)]


def _in_hex(triple: Bound) -> bytes:
    public_key, log_id, seq_num = triple
    if not log_id and not seq_num:
        return b"\x83\x78\x40%b\x00\x00" % hexlify(public_key)
    return b"\x83\x78\x40%b%b%b" % (
        hexlify(public_key),
        _NUMBERS[log_id] if log_id < _SMALL else head(NUMBER, log_id),
        _NUMBERS[seq_num] if seq_num < _SMALL else head(NUMBER, seq_num),
    )


def _in_bytes(triple: Bound) -> bytes:
    public_key, log_id, seq_num = triple
    return b"\x83\x58\x20%b%b%b" % (
        public_key,
        _NUMBERS[log_id] if log_id < _SMALL else head(NUMBER, log_id),
        _NUMBERS[seq_num] if seq_num < _SMALL else head(NUMBER, seq_num),
    )


def _as_prefix(bound: Bound) -> bytes:
    if bound[1] or bound[2]:
        return _in_bytes(bound)
    spelled = compact.prefix(bound[0])
    return _OCTETS[len(spelled)] + spelled


_SPELLINGS: Final[dict[Form, tuple[Callable[[Bound], bytes], Callable[[Bound], bytes]]]] = {
    "hex": (_in_hex, _in_hex),
    "compact": (_in_bytes, _as_prefix),
}
"""By form: the encoder of items, and the encoder of bounds."""
