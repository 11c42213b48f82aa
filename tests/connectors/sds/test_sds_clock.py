"""Full participants whose wall clock is set, whose machine was suspended, and who were away for hours."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from culm_connectors.sds.participants.participant import Participant
from culm_connectors.sds.participants.passing_time import PassingTime
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.sds.participants.state import StateFolder
from culm_connectors.transport import Address
from culm_models.keys import KeyPair
from culm_models.sds.errors import ClockAheadError
from culm_models.sds.events import ClockAhead, Lost, SdsEvent
from culm_models.sds.frames.messages import Fetch, Fetched, SdsMessage
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import HistoryEntry
from tests.support.connectors.quic import quick_settings
from tests.support.process.waiting import until, while_working
from tests.support.sds.edge import MemoryBackbone, message, remote, serving

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEPS = [-2 * DAY_MS, -HOUR_MS, HOUR_MS, 2 * DAY_MS]


@dataclass
class Clocks:
    """A wall clock and a clock of elapsed time that tests move; they go on by themselves too."""

    wall_ms: int = START_MS
    elapsed_ms: int = 0

    def _since_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall(self) -> int:
        return self.wall_ms + self._since_ms()

    def elapsed(self) -> int:
        return self.elapsed_ms + self._since_ms()


@contextlib.asynccontextmanager
async def participant(
    folder: Path, address: Address | None, name: str, clocks: Clocks
) -> AsyncIterator[tuple[SdsPeer, list[SdsEvent]]]:
    heard: list[SdsEvent] = []
    async with SdsPeer(
        folder / name,
        "room",
        key_pair=KeyPair.from_private_key(name.encode().ljust(32, b"-")),
        participant_id=name,
        settings=SdsSettings(resend_unacknowledged_ms=200, resend_attempts=1_000, sync_floor_ms=150),
        durable=False,
        transport=quick_settings(),
        now_ms=clocks.wall,
        elapsed_ms=clocks.elapsed,
    ) as peer:
        peer.listeners.append(heard.append)
        if address is not None:
            peer.dial(address)
            async with while_working():
                await peer.present.wait()
        yield peer, heard


@pytest.mark.parametrize("by_ms", STEPS)
async def test_a_step_of_the_clock_stops_no_timer(tmp_path: Path, by_ms: int) -> None:
    async with serving(MemoryBackbone()) as (_, address):
        clocks = Clocks()
        async with participant(tmp_path, address, "alice", clocks) as (alice, heard):
            await alice.send(b"before")
            clocks.wall_ms += by_ms
            # Nobody is there to acknowledge it: it is sent again and again.
            await until(lambda: alice.status().outgoing[0].attempts >= 2)
            clocks.wall_ms -= by_ms
            attempts = alice.status().outgoing[0].attempts
            await until(lambda: alice.status().outgoing[0].attempts > attempts)
            assert not any(isinstance(event, Lost) for event in heard)


async def test_who_sent_with_a_clock_two_days_ahead_is_told_also_after_a_restart(tmp_path: Path) -> None:
    async with serving(MemoryBackbone()) as (_, address):
        clocks = Clocks()
        async with participant(tmp_path, address, "alice", clocks) as (alice, heard):
            clocks.wall_ms += 2 * DAY_MS
            await alice.send(b"from the future")
            clocks.wall_ms -= 2 * DAY_MS
            with pytest.raises(ClockAheadError):
                await alice.send(b"more")
            await until(lambda: any(isinstance(event, ClockAhead) for event in heard))
        async with participant(tmp_path, address, "alice", clocks) as (alice, heard):
            with pytest.raises(ClockAheadError):
                await alice.send(b"more")
            await until(lambda: any(isinstance(event, ClockAhead) for event in heard))
            assert len(alice.status().log) == 1


@pytest.mark.parametrize("passes_ms", [(0, 2 * HOUR_MS), (2 * HOUR_MS, 2 * HOUR_MS)])
async def test_two_hours_away_lose_nothing_before_it_was_asked_for(
    tmp_path: Path, passes_ms: tuple[int, int]
) -> None:
    """Suspended (the elapsed time stands still) or only without a connection."""
    child = message("eve", "child", 2, causal_history=(HistoryEntry("parent"),))
    parent = message("eve", "parent", 1)
    async with serving(MemoryBackbone()) as (_, address):
        clocks = Clocks()
        async with participant(tmp_path, None, "bob", clocks) as (bob, heard):
            dialling = bob.dial(address)
            async with remote(address, 1) as eve:
                await eve.joins("room", "eve")
                await bob.present.wait()
                await eve.say(SdsMessage("room", child))
                await bob.wait_for(lambda: bool(bob.status().missing))
            dialling.cancel()
            await until(lambda: not bob.joined.is_set())
            clocks.elapsed_ms += passes_ms[0]
            clocks.wall_ms += passes_ms[1]
            async with remote(address, 2) as dan:
                await dan.joins("room", "dan")
                await dan.say(SdsMessage("room", message("dan", "other", 3)))
                bob.dial(address)
                (asked,) = (await dan.hears(Fetch))[:1]
                assert [entry.message_id for entry in asked.entries] == ["parent"]
                await dan.say(Fetched("room", asked.request, ((parent, None),)))
                await bob.wait_for(lambda: len(bob.status().log) >= 2)
            assert [logged.message_id for logged in bob.history()][:2] == ["parent", "child"]
            assert not any(isinstance(event, Lost) for event in heard)


def test_time_passes_while_others_can_be_reached_and_stands_still_otherwise() -> None:
    elapsed = 0
    passing = PassingTime(1_000, lambda: elapsed)
    elapsed += 500
    assert passing.advance(None) == 1_000
    passing.run()
    elapsed += 70
    passing.stop()
    elapsed += 5_000
    assert passing.advance(None) == 1_070
    passing.run()
    elapsed += 3
    assert passing.advance(None) == 1_073


def test_a_process_that_was_stopped_is_late_and_misses_nothing() -> None:
    elapsed = 0
    passing = PassingTime(0, lambda: elapsed)
    passing.run()
    elapsed += 2 * HOUR_MS
    assert passing.advance(60_000) == 70_000
    assert passing.advance(70_000) == 70_000


@pytest.mark.parametrize("by_ms", STEPS)
def test_a_restart_after_steps_of_the_clock_stands_where_the_process_stood(
    tmp_path: Path, by_ms: int
) -> None:
    def opened() -> tuple[StateFolder, Participant]:
        folder = StateFolder(tmp_path, durable=False)
        return folder, Participant(
            folder, "room", "spec", "alice", settings=None, now_ms=START_MS, seed=b"s" * 32
        )

    folder, alice = opened()
    for number, clock_ms in enumerate((START_MS, START_MS + by_ms, START_MS)):
        alice.set_clock(START_MS + number, clock_ms)
        with contextlib.suppress(ClockAheadError):
            alice.send(b"%d" % number, START_MS + number, bytes([number]) * 16)
        if number == 1:
            alice.commit()
            alice.snapshot()
    alice.withdraw_ahead(START_MS + 10)
    alice.reached(START_MS + 11)
    alice.send(b"last", START_MS + 12, b"l" * 16)
    alice.commit()
    before = alice.status(), alice.clock_at(alice.now_ms), alice.next_due_ms()
    folder.close()
    folder, alice = opened()
    with folder:
        assert (alice.status(), alice.clock_at(alice.now_ms), alice.next_due_ms()) == before
