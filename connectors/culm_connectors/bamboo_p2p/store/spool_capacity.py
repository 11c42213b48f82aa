"""Capacity for further parts of payloads, in the spool and in the shares of principals and addresses."""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.spool_shares import SpoolShare
from culm_connectors.edge.fair_turns import caller_address
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.errors import LimitReached

_LOOK_EVERY_S: Final = 60.0
_DROPPED_AT_ONCE: Final = 64


class _Full(NamedTuple):
    """Capacity that is used up: the whole spool, and the shares of principals and addresses."""

    spool: bool
    principals: frozenset[str]
    addresses: frozenset[str]

    def is_full_for(self, principal: str, address: str) -> bool:
        """Whether this principal has to wait."""
        return self.spool or principal in self.principals or address in self.addresses


class SpoolCapacity:
    """Capacity of one store's spool. Connections wait for it on the event loop; the rest is for its thread.

    All connections have to be notified of dropped parts: one that forwarded them unverified apologises.
    """

    def __init__(self, store: FolderStore, *, timeout_s: float, expires_s: int) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._expires_s = expires_s
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._looked_s = float("-inf")
        self._state = self._full_now()

    async def wait_for_capacity(self, principal: str) -> None:
        """Wait until a principal and its address have capacity for further parts.

        Raises `LimitReached` if that takes longer than the timeout.
        """
        address = caller_address()
        try:
            async with asyncio.timeout(self._timeout_s):
                while self._state.is_full_for(principal, address):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise LimitReached("there is no capacity for further unverified payloads") from None

    def settled(self) -> None:
        """Wake the waiting connections if the capacity has changed by a step."""
        if (state := self._full_now()) != self._state:
            self._state = state
            self._loop.call_soon_threadsafe(self._changed.set)

    def _full_now(self) -> _Full:
        shares = self._store.shares
        return _Full(self._store.is_spool_full, shares.full, frozenset(shares.addresses.full))

    def drop_expired(self) -> Changes:
        """Drop parts of payloads of which no more has arrived for too long, a bounded number each time.

        Payloads with parts from topics stay: topics are read once, and the rest may still arrive.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return Changes()
        store = self._store
        dropped: list[tuple[LogKey, int]] = []
        for log, seq_num, size in store.shares.untouched(self._expires_s):
            if size >= store.unverified(log, seq_num).count:
                store.discard_unverified(log, seq_num)
                dropped.append((log, seq_num))
                if len(dropped) == _DROPPED_AT_ONCE:
                    break
        else:
            self._looked_s = now_s
        return Changes(dropped, dropped)

    def drop_of(self, principal: str) -> Changes:
        """Drop the oldest parts of a disconnected principal whose share is full, down to half of the share.

        When the principal returns, it has capacity for the rest. Payloads mostly sent by others stay.
        """
        return self._drop_of(self._store.shares.peers, principal)

    def drop_from(self, address: str) -> Changes:
        """Drop parts like `drop_of`, for an address without connections."""
        return self._drop_of(self._store.shares.addresses, address)

    def _drop_of(self, share: SpoolShare, name: str) -> Changes:
        store = self._store
        dropped: list[tuple[LogKey, int]] = []
        if name in share.full:
            for log, seq_num, size in share.of(name):
                if share.bytes_of(name) * 2 <= share.limit:
                    break
                if size * 2 > store.unverified(log, seq_num).count:
                    store.discard_unverified(log, seq_num)
                    dropped.append((log, seq_num))
        return Changes(dropped, dropped)
