"""How the items of a sync range become fingerprints that can be combined (specification "replication", 2.2).

The specification leaves `lift_type` open; this is the registry of ours. An item is (public key, log id,
sequence number) at a log's height; its lift is one or two 64-bit lanes, and the fingerprint of a set is the
combination of all its items' lanes, lane by lane.

| module | what it holds |
|---|---|
| lift | an item as the bytes that are hashed; `Lift`: lanes, combining, bytes on the wire; our four |
| vectors | the same for a million items at once, with numpy: imported by those that have it |
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
