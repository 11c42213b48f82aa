"""Unsolicited data: UCANs that prove the other end's rights, and bytes that are dropped."""

from __future__ import annotations

from collections.abc import Sequence

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, DagUnasked
from culm_models.dag.exchange.needs import read_block
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.token import Ucan


class Unasked:
    """Limits of unsolicited data on one connection."""

    def __init__(self, settings: ExchangeSettings, peer: bytes) -> None:
        self._settings = settings
        self._issuer = did_key(peer)
        self._bytes = 0
        self._tokens = 0

    def count(self, count: int) -> None:
        """Count dropped bytes. Raises `DagUnasked` when their total exceeds the limit."""
        self._bytes += count
        if self._bytes > self._settings.unasked_bytes:
            raise DagUnasked(f"{self._bytes} bytes were not requested")

    def token(self, cids: Sequence[Cid], block: bytes) -> Cid | None:
        """Return the CID under which the block is a UCAN issued by the other end's own key (R14).

        Returns None if there is none, or if the limit of UCANs is reached.
        """
        if self._tokens >= self._settings.tokens:
            return None
        for cid in cids:
            try:
                ucan = read_block(cid, block, legacy=self._settings.legacy)
            except DagError:
                continue
            if isinstance(ucan, Ucan) and ucan.claims.issuer == self._issuer:
                self._tokens += 1
                return cid
        return None
