"""Both channels over one: what the other end does not read, grant or mean costs a bounded amount."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.channels.budgets import ChannelBudget
from culm_connectors.bamboo_p2p.channels.multiplexed import Multiplexed
from culm_connectors.bamboo_p2p.errors import ChannelError
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.transport.memory import memory_pair
from culm_connectors.url import Url
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.data_channel import receiver as receiver_module
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.wire.control import encode_control, encode_setup
from culm_models.bymux import CONTROL, DATA, Frame, FrameType, encode_frame
from tests.models.bamboo_p2p.hand_made import proposal
from tests.models.bamboo_p2p.logs import LOG
from tests.models.bamboo_p2p.test_bamboo_p2p_hostile import SIZE, bombs
from tests.support.hostile.bamboo import hostile_channels

SETUP = encode_setup(BambooSettings().setup)


async def test_pings_whose_answers_nobody_reads_end_the_connection() -> None:
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=1_000)
    await channels.write(CONTROL, SETUP)
    pings = encode_frame(Frame(FrameType.PING, DATA)) * 30_000

    async def flood() -> None:
        await theirs.write(SETUP)
        while True:
            await theirs.write(pings)

    flooding = asyncio.create_task(flood())
    assert await channels.read(CONTROL) == SETUP
    with pytest.raises(ChannelError, match="more frames than it reads"):
        await channels.read(CONTROL)
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)
    await channels.close(None)


async def test_frames_are_taken_a_bounded_number_at_a_time() -> None:
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=1_000)
    await channels.write(CONTROL, SETUP)
    await theirs.write(SETUP + encode_frame(Frame(FrameType.PING, DATA)) * 30_000)
    assert await channels.read(CONTROL) == SETUP
    answered, answers_at_once = 0, []
    while answered < 2 * 30_000:
        came = len(await theirs.read(2 * 30_000))
        answers_at_once.append(came)
        answered += came
    assert max(answers_at_once) < 2_000
    await channels.close(None)


async def test_control_that_comes_byte_by_byte_is_read_at_once() -> None:
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=1_000)
    await theirs.write(SETUP + (encode_frame(Frame(FrameType.WRITE, CONTROL, 1)) + b"x") * 200)
    for _ in range(100):
        await asyncio.sleep(0)
    assert await channels.read(CONTROL) == SETUP + b"x" * 200
    await channels.close(None)


@dataclass(frozen=True)
class Limits:
    bytes_per_second: float = 0.0
    burst_bytes: float = 1.0
    frames_per_second: float = 0.0
    burst_frames: float = 1.0
    empty_frames_per_second: float = 0.0
    burst_empty_frames: float = 1.0


async def test_a_flood_of_pings_ends_every_connection_of_its_principal() -> None:
    budget = ChannelBudget(Limits(empty_frames_per_second=1.0, burst_empty_frames=1_000), time.monotonic())
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=1_000, budget=budget)
    await theirs.write(SETUP + encode_frame(Frame(FrameType.PING, DATA)) * 900)
    assert await channels.read(CONTROL) == SETUP
    ours, theirs = memory_pair()
    other = Multiplexed(ours, window=1_000, budget=budget)
    await theirs.write(SETUP + encode_frame(Frame(FrameType.PONG, DATA)) * 900)
    assert await other.read(CONTROL) == SETUP
    with pytest.raises(ChannelError, match=r"bymux\.flood"):
        await other.read(CONTROL)
    await asyncio.gather(channels.close(None), other.close(None))


def test_bytes_and_frames_beyond_a_budget_are_read_later() -> None:
    limits = Limits(bytes_per_second=100.0, burst_bytes=100.0, frames_per_second=10.0, burst_frames=10.0)
    budget = ChannelBudget(limits, 1.0)
    assert budget.wait_s(1.0, size=100, frames=10, empty_frames=0) == 0.0
    assert budget.wait_s(1.0, size=50, frames=0, empty_frames=0) == 0.5
    assert budget.wait_s(1.0, size=0, frames=20, empty_frames=9) == 2.0


async def test_more_data_than_was_granted_ends_the_connection() -> None:
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=100)
    await theirs.write(SETUP + encode_frame(Frame(FrameType.WRITE, DATA, 101)) + bytes(101))
    assert await channels.read(CONTROL) == SETUP
    with pytest.raises(ChannelError, match="credit"):
        await channels.read(DATA)
    await channels.close(None)


async def test_room_for_data_is_what_was_granted_and_is_not_used_yet() -> None:
    ours, theirs = memory_pair()
    mine, other = Multiplexed(ours, window=100), Multiplexed(theirs, window=100)
    await mine.write(CONTROL, SETUP)
    await other.write(CONTROL, SETUP)
    assert await other.read(CONTROL) == SETUP == await mine.read(CONTROL)
    assert await other.capacity(DATA) == 100
    await other.write(DATA, bytes(30))
    assert await other.capacity(DATA) == 70
    await asyncio.gather(mine.close(None), other.close(None))


async def test_control_goes_through_while_data_is_left_unread() -> None:
    ours, theirs = memory_pair()
    mine, other = Multiplexed(ours, window=100), Multiplexed(theirs, window=100)
    await mine.write(CONTROL, SETUP)
    await other.write(CONTROL, SETUP)
    assert await mine.read(CONTROL) == SETUP == await other.read(CONTROL)
    await other.capacity(DATA)
    await other.write(DATA, bytes(1_000))
    await other.write(CONTROL, b"goes first")
    assert await mine.read(CONTROL) == b"goes first"
    came = 0
    while came < 1_000:
        data = await mine.read(DATA)
        assert len(data) <= 100
        came += len(data)
    await asyncio.gather(mine.close(None), other.close(None))


async def test_control_that_nobody_asks_for_stays_with_who_sends_it() -> None:
    ours, theirs = memory_pair()
    channels = Multiplexed(ours, window=100)
    frame = encode_frame(Frame(FrameType.WRITE, CONTROL, 16_384)) + bytes(16_384)
    frames, sent = 512, 0

    async def flood() -> None:
        nonlocal sent
        await theirs.write(SETUP)
        for _ in range(frames):
            await theirs.write(frame)
            sent += 16_384

    flooding = asyncio.create_task(flood())
    for _ in range(20 * frames):
        await asyncio.sleep(0)
    assert 1_000_000 < sent < 2_000_000
    came = -len(SETUP)
    while came < frames * 16_384:
        came += len(await channels.read(CONTROL))
    await flooding
    await channels.close(None)


async def test_what_is_left_of_compressed_data_is_taken_turn_by_turn_though_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "PLAIN_BYTES_A_TURN", SIZE)
    async with (
        BambooPeer.open(tmp_path, flavour=YAMF) as peer,
        peer.listen(Url("quic", "127.0.0.1", 0)) as url,
        hostile_channels((url.host, url.port)) as channels,
    ):
        changed = asyncio.Event()
        peer.listeners.append(lambda _, __: changed.set())
        await channels.write(CONTROL, encode_control(proposal()))
        while not await peer.read(
            lambda _: any(remote.session.connection.requests for remote in peer.remotes.values())
        ):
            await changed.wait()
            changed.clear()
        await channels.write(DATA, bombs(12))
        while not await peer.read(lambda store: store.payloads(LOG).covers(1, 13)):
            await changed.wait()
            changed.clear()
