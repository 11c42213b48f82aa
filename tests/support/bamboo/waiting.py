"""Waiting for the store of a Bamboo peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from tests.support.process.waiting import while_working


async def until_stored(peer: BambooPeer, holds: Callable[[FolderStore], bool]) -> None:
    """Wait until a condition holds for the store of a peer. Each event of the peer checks it."""
    changed = asyncio.Event()
    peer.listeners.append(lambda _, __: changed.set())
    async with while_working():
        while not await peer.read(holds):
            await changed.wait()
            changed.clear()
