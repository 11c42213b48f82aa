"""How much each peer has brought lately: an amount that flows away evenly, with no fixed dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MAX_PEERS: Final = 65_536
"""So many peers are kept in mind; beyond, those who brought the least are forgotten."""


@dataclass(slots=True)
class _Brought:
    amount: float = 0.0
    at_s: float = 0.0


class QuotaLedger:
    """Bytes, or anything, by peer. Times in seconds, on any clock that goes forward."""

    def __init__(self) -> None:
        self._brought: dict[str, _Brought] = {}

    def add(self, peer: str, amount: int, now_s: float, *, quota: int, period_s: float) -> None:
        """A peer with this quota brought so much."""
        found = self._brought.setdefault(peer, _Brought())
        found.amount = self._now(found, now_s, quota, period_s) + amount
        found.at_s = now_s
        if len(self._brought) > _MAX_PEERS:
            least = min(self._brought, key=lambda name: self._brought[name].amount)
            del self._brought[least]

    def is_full(self, peer: str, now_s: float, *, quota: int, period_s: float) -> bool:
        """Whether a peer with this quota is to bring nothing for now."""
        found = self._brought.get(peer)
        return found is not None and self._now(found, now_s, quota, period_s) >= quota

    @staticmethod
    def _now(found: _Brought, now_s: float, quota: int, period_s: float) -> float:
        flown = max(0.0, now_s - found.at_s) * quota / period_s
        return max(0.0, found.amount - flown)
