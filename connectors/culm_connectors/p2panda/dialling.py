"""Keeps a connection to an address: dials, speaks, and dials again after a pause that grows (`backoff`).

It grows with every attempt that brought no session to its end, and is short again after one that did: a
remote that takes connections and drops them is not asked more often than one that does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from culm_connectors.p2panda.backoff import Backoff
from culm_connectors.p2panda.driver import Driver
from culm_connectors.transport import (
    Address,
    CloseCode,
    Connection,
    Identity,
    TransportError,
    TransportSettings,
    connect,
)

logger = logging.getLogger(__name__)


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
    await keep_calling(
        driver,
        lambda: connect(address, identity, expected_peer_id, settings, alpn=alpn),
        name=f"{address[0]}:{address[1]}",
        expected_peer_id=expected_peer_id,
    )


async def keep_calling(
    driver: Driver,
    call: Callable[[], Awaitable[Connection]],
    *,
    name: str,
    expected_peer_id: bytes | None = None,
) -> None:
    """The same for any way to call a peer; `name` is what the log calls it."""
    backoff = Backoff()
    remote = expected_peer_id
    while True:
        if remote is not None and (link := driver.links.get(remote)) is not None:
            # The peer has dialled us meanwhile: one connection is enough.
            await link.connection.wait_closed()
            if link.went_well:
                backoff.succeeded()
        else:
            try:
                connection = await call()
            except TransportError as error:
                logger.info("%s: %s", name, error)
            else:
                remote = connection.peer_id
                try:
                    if await driver.speak(connection):
                        backoff.succeeded()
                finally:
                    await connection.close(CloseCode.SHUTTING_DOWN)
        await asyncio.sleep(backoff.pause_s())
