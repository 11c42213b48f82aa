"""Lifts, which turn the items of a sync range into fingerprints (specification "replication", 2.2).

The specification leaves `lift_type` open; this is Culm's registry. An item is (public key, log id, sequence
number) at a log's height. Its lift is one or two 64-bit lanes, and the fingerprint of a set is the
combination of all its items' lanes, lane by lane.

| module | contents |
|---|---|
| lift | an item as the bytes that are hashed; `Lift`: lanes, combining, bytes on the wire; the four lifts |
| vectors | the same for a million items at once, with numpy; imported only by packages that have numpy |
"""

from culm_models.lifts.lift import (
    ADD64,
    ADD128,
    DEFAULT,
    ITEM_SIZE,
    LIFTS,
    SIPHASH128,
    XOR64,
    FingerprintLengthError,
    Item,
    Lanes,
    Lift,
    LiftError,
    UnknownLiftError,
    WireFingerprint,
    by_code,
    by_name,
    pack,
    read_fingerprint,
)

__all__ = [
    "ADD64",
    "ADD128",
    "DEFAULT",
    "ITEM_SIZE",
    "LIFTS",
    "SIPHASH128",
    "XOR64",
    "FingerprintLengthError",
    "Item",
    "Lanes",
    "Lift",
    "LiftError",
    "UnknownLiftError",
    "WireFingerprint",
    "by_code",
    "by_name",
    "pack",
    "read_fingerprint",
]
