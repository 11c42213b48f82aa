"""Keeps a connection to an address: dials, speaks, and dials again after a growing pause."""

from __future__ import annotations

import asyncio
import logging
import random
import time

from culm_connectors.p2panda.driver import Driver
from culm_connectors.transport import Address, CloseCode, Identity, TransportError, TransportSettings, connect

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
MAX_PAUSE_S = 30.0
_STEADY_S = 10.0


async def keep_connected(
    driver: Driver,
    address: Address,
    identity: Identity,
    settings: TransportSettings,
    *,
    alpn: str,
    expected_peer_id: bytes | None = None,
) -> None:
    """Hold a connection to a peer for as long as this task runs."""
    pause_s = FIRST_PAUSE_S
    remote = expected_peer_id
    while True:
        if remote is not None and remote in driver.links:
            # The peer has dialled us meanwhile: one connection is enough.
            await driver.links[remote].connection.wait_closed()
            continue
        started_s = time.monotonic()
        try:
            connection = await connect(address, identity, expected_peer_id, settings, alpn=alpn)
        except TransportError as error:
            logger.info("%s:%d: %s", address[0], address[1], error)
        else:
            remote = connection.peer_id
            try:
                await driver.serve(connection)
            finally:
                await connection.close(CloseCode.SHUTTING_DOWN)
            if time.monotonic() - started_s >= _STEADY_S:
                pause_s = FIRST_PAUSE_S
        # Peers that lost the same server must not all come back at once.
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
        pause_s = min(MAX_PAUSE_S, 2 * pause_s)
