"""What came without having been asked for: UCANs that the other end shows, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, DagUnasked
from culm_models.dag.exchange.needs import read_block
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.token import Ucan


class Unasked:
    """How much of it there may be on one connection."""

    def __init__(self, settings: ExchangeSettings, peer: bytes) -> None:
        self._settings = settings
        self._issuer = did_key(peer)
        self._bytes = 0
        self._tokens = 0

    def count(self, count: int) -> None:
        """So many bytes are dropped. Raises `DagUnasked` when it cannot be an accident any more."""
        self._bytes += count
        if self._bytes > self._settings.unasked_bytes:
            raise DagUnasked(f"{self._bytes} bytes came that nobody had asked for")

    def token(self, cids: Sequence[Cid], block: bytes) -> Cid | None:
        """Which of these CIDs is that of a UCAN that the other end has issued by its own key (R14)."""
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
