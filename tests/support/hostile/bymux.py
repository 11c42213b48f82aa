"""What hostile peers of Bamboo Point-2-Point send over TCP, where frames of bymux carry both channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from culm_connectors.transport import Address
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.wire.control import encode_setup
from culm_models.bymux import DATA, Frame, FrameType, encode_frame
from tests.support.hostile.source_address import under_keys

_AT_ONCE: Final = 32_768


async def _frames(frame: Frame, address: Address) -> None:
    """One frame again and again, as fast as it is taken; nothing of the answers is read."""
    data = encode_frame(frame) * _AT_ONCE
    channel = await connect_tcp(address, TcpSettings())
    try:
        await channel.write(encode_setup(BambooSettings().setup))
        while True:
            await channel.write(data)
    finally:
        channel.abort()


BYMUX_ATTACKS: Mapping[str, Callable[[Address], Awaitable[None]]] = {
    "bymux-pings": under_keys(partial(_frames, Frame(FrameType.PING, DATA)), 8, 8),
    "bymux-credits": under_keys(partial(_frames, Frame(FrameType.CREDIT, DATA, 1)), 8, 8),
}
