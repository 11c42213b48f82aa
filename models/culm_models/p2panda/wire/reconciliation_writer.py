"""Messages of set reconciliation to bytes, many at once (specification "replication", 2.1: types 20 to 26).

`hex` is the specification's form, `compact` that of module `compact`. The heads of the messages never
change, so they are written down here and the rest is put between them.
"""

from binascii import hexlify
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

from culm_models.cbor.scanner import NUMBER, OCTETS, head
from culm_models.p2panda.errors import FingerprintSizeError
from culm_models.p2panda.wire import compact
from culm_models.p2panda.wire.messages import MAX_FINGERPRINT_BYTES, Bound
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

Form: TypeAlias = Literal["hex", "compact"]
"""How keys and bounds are spelled."""

FORMS: Final[tuple[Form, ...]] = ("hex", "compact")

_SMALL: Final = 1024
_NUMBERS: Final = tuple(head(NUMBER, value) for value in range(_SMALL))
_OCTETS: Final = tuple(head(OCTETS, size) for size in range(MAX_FINGERPRINT_BYTES + 1))
_FLAGS: Final = {False: b"\xf4", True: b"\xf5"}


def encode_many(messages: Iterable[ReconciliationMessage], form: Form = "hex") -> bytes:
    """The bytes of messages, one behind the other. Raises `FingerprintSizeError`."""
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
"""How a form spells items, and how it spells bounds."""
