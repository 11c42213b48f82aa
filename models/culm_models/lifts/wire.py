"""A fingerprint as it goes on the wire, naming its lift: one byte code, the salt (0 or 16 bytes), the value.

Equal fingerprints are evidence that two sets are equal, never proof.
"""

from typing import NamedTuple

from culm_models.lifts.errors import FingerprintLengthError
from culm_models.lifts.lift import Lift
from culm_models.lifts.registry import by_code


class WireFingerprint(NamedTuple):
    """A fingerprint taken apart."""

    lift: Lift
    salt: bytes
    value: bytes


def read_fingerprint(data: bytes) -> WireFingerprint:
    """Take a fingerprint from the wire apart. Raises UnknownLiftError, FingerprintLengthError."""
    if not data:
        raise FingerprintLengthError("a fingerprint of no bytes")
    lift = by_code(data[0])
    if len(data) != 1 + lift.salt_bytes + lift.value_bytes:
        raise FingerprintLengthError(f"a fingerprint of {lift.name} of {len(data)} bytes")
    end = 1 + lift.salt_bytes
    return WireFingerprint(lift, data[1:end], data[end:])
