"""Limits that decide validation (reference 3.4). The deployment's record uses the same names (R28)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DagBounds:
    """Limits of sizes (bytes), counts and depths. Excess is refused before memory is allocated for it."""

    node: int = 262_144
    shards: int = 4_096
    forks: int = 256
    nesting: int = 128
    car: int = 134_217_728
    car_header: int = 65_536
    car_roots: int = 1_024
    block: int = 2_097_152
    sections: int = 1_000_000
    ucan: int = 65_536
    proofs: int = 16
    delegations: int = 16


DEFAULT_BOUNDS = DagBounds()
