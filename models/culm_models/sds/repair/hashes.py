"""The numbers of SDS-R: when to request a missing message, when to answer, and who answers (reference 3.1).

`sha256` is the rule of js and of the specification: the first 8 bytes of SHA-256 as a big-endian number.
`farmhash` is nim's: its standard hash of a string, a signed number; after any exclusive-or the sign is
dropped. The two rules give the same message different times.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from culm_models.sds.bloom.farmhash import fingerprint64
from culm_models.sds.wire.messages import RepairHash

_SIGN: Final = 1 << 63
_RANGE: Final = 1 << 64


def _first_of_sha256(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big")


def _signed_farmhash(text: str) -> int:
    fingerprint = fingerprint64(text.encode())
    return fingerprint - _RANGE if fingerprint & _SIGN else fingerprint


_HASHES: Final[Mapping[RepairHash, Callable[[str], int]]] = MappingProxyType(
    {"sha256": _first_of_sha256, "farmhash": _signed_farmhash}
)


def request_offset_ms(
    rule: RepairHash, participant_id: str, message_id: str, t_min_ms: int, t_max_ms: int
) -> int:
    """Return the wait before `participant_id` requests a missing message: from t_min to below t_max."""
    span_ms = t_max_ms - t_min_ms
    return t_min_ms if span_ms <= 0 else t_min_ms + _pair_hash(rule, participant_id, message_id) % span_ms


def response_offset_ms(
    rule: RepairHash, participant_id: str, sender_id: str, message_id: str, t_max_ms: int
) -> int:
    """Return the wait before `participant_id` answers a request: 0 for the sender, else below t_max."""
    hash_of = _HASHES[rule]
    distance = abs(hash_of(participant_id) ^ hash_of(sender_id))
    weight = abs(hash_of(message_id))
    # nim reduces both factors first, so as not to overflow: the remainder of the product is the same.
    return distance * weight % t_max_ms if t_max_ms > 0 else 0


def in_response_group(
    rule: RepairHash, participant_id: str, sender_id: str, message_id: str, groups: int
) -> bool:
    """Whether `participant_id` belongs to the group that answers for this message of `sender_id`."""
    if groups <= 1:
        return True
    own = _pair_hash(rule, participant_id, message_id)
    return own % groups == _pair_hash(rule, sender_id, message_id) % groups


def _pair_hash(rule: RepairHash, participant_id: str, message_id: str) -> int:
    # All implementations concatenate the two ids without a separator.
    return abs(_HASHES[rule](participant_id + message_id))
