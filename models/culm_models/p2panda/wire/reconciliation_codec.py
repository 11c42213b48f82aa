"""The items of the messages of set reconciliation (specification "replication", 2.1: types 20 to 26).

    20  EmptySet      [20, session id, can respond]
    21  LowerBound    [21, session id, bound]
    22  Payload       [22, session id, item], [… , can respond], [… , can respond, bound]
    23  EmptyPayload  [23, session id, bound]
    24  Done          [24, session id, bound]
    25  Fingerprint   [25, session id, fingerprint, bound]
    26  Terminal      [26, session id]

Items and bounds are `[public key, log id, sequence number]`; an item with sequence number 0 says that the
sender holds nothing of that log. Keys are 64 lower-case hex digits; both they and bounds are read in the
compact form too (`compact`). What is optional is left out, never null. The table joins that of `codec`;
writing is in `reconciliation_writer`, and `fast_decoder` reads the usual ones faster.
"""

from collections.abc import Callable
from typing import Any, Final

from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.errors import FingerprintSizeError, ItemCountError, PublicKeyError
from culm_models.p2panda.wire import compact
from culm_models.p2panda.wire import messages as types
from culm_models.p2panda.wire.items import array, count, flag, key_from_bytes, key_from_hex, octets, u64
from culm_models.p2panda.wire.messages import Bound, Item
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
