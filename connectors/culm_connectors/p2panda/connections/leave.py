"""Orderly end of a connection, so that it is known whether the remote has received everything."""

from __future__ import annotations

import asyncio
import contextlib

from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import CloseReason
from culm_models.p2panda.peer import Peer

_CLOSING_S = 10.0


async def leave(peer: Peer, link: PeerLink) -> CloseReason | None:
    """Write what the remote is still to be sent, end the stream, and wait until the remote closes.

    Returns how the connection ended: a remote that could read everything closes with NORMAL. Returns None
    for one that has received every byte and does not close within `_CLOSING_S`.
    """
    closed = asyncio.ensure_future(link.connection.wait_closed())
    finishing = asyncio.ensure_future(_finish(peer, link))
    try:
        await asyncio.wait({closed, finishing}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({closed}, timeout=_CLOSING_S)
    finally:
        closed.cancel()
        finishing.cancel()
    return link.connection.close_reason


async def _finish(peer: Peer, link: PeerLink) -> None:
    while peer.outgoing(link.remote) or not link.quiet.is_set():
        link.wake.set()
        await link.quiet.wait()
        await asyncio.sleep(0)
    if link.outgoing is not None:
        # A connection that has ended has a close reason.
        with contextlib.suppress(TransportError):
            await link.outgoing.wait_acknowledged(link.outgoing.written)
            link.outgoing.finish()
