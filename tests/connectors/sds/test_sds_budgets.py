"""What one key may use of an SDS edge: joins, records, memory, turns; others do not wait for it."""

from __future__ import annotations

import asyncio

import pytest

from culm_connectors.sds.budgets import edge_budgets
from culm_connectors.sds.history.replay_limiter import ReplayLimiter
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport import CloseCode, ConnectError
from culm_models.sds.frames.messages import (
    AskHead,
    EventFrame,
    Fetch,
    Fetched,
    Head,
    Join,
    Leave,
    Mark,
    Refused,
    SdsMessage,
)
from culm_models.sds.wire.messages import HistoryEntry
from tests.support.hostile.sds import deaf_readers, join_and_leave
from tests.support.process.waiting import until
from tests.support.sds.edge import MemoryBackbone, event, message, remote, serving


async def test_joins_of_a_key_are_paced_over_all_of_its_connections() -> None:
    backbone = MemoryBackbone()
    async with (
        serving(backbone, joins_per_second=0.001, burst_joins=5) as (_, address),
        remote(address, 1) as a,
        remote(address, 1) as again,
        remote(address, 2) as honest,
    ):
        await join_and_leave(a, 20)
        await join_and_leave(again, 20)
        await honest.joins("room", "honest")
        assert backbone.follows <= 5 + 1


async def test_final_leaves_in_a_loop_hold_no_more_records_than_a_peers_share() -> None:
    backbone = MemoryBackbone()
    backbone.gate.clear()
    async with (
        serving(backbone, max_staged_items_per_peer=10) as (driver, address),
        remote(address, 1) as attacker,
        remote(address, 2) as honest,
    ):
        await join_and_leave(attacker, 200, hosted=True, final=True)
        await honest.joins("room", "honest")
        await honest.say(SdsMessage("room", message("honest", "mine")))
        await until(lambda: driver.metrics.messages_in["content"])
        assert driver.metrics.staged <= 10 + 2
        backbone.gate.set()
        await until(lambda: backbone.said)


async def test_readers_that_never_read_hold_no_turn_of_those_who_do() -> None:
    backbone = MemoryBackbone()
    for number in range(200):
        backbone.keep("room", message("x", f"m{number}", number, content=bytes(30_000)))
    async with (
        serving(backbone, max_catching_up=2) as (driver, address),
        deaf_readers(address, 6),
    ):
        await until(lambda: driver.metrics.memberships == 6)
        async with remote(address, 1) as honest:
            await honest.joins("room", "honest", cursor=b"")
            await honest.hears(SdsMessage, 200)
            await until(lambda: honest.all(Mark)[-1].present)
        unread = driver.unsent.bytes
        assert unread <= 6 * (driver.settings.max_unsent_past_bytes + 64 * 1024)


async def test_a_past_that_is_read_in_turns_comes_whole_and_once() -> None:
    backbone = MemoryBackbone()
    wires = [message("x", f"m{number}", number) for number in range(60)]
    for wire in wires:
        backbone.keep("room", wire)
    for number in range(1, 61):
        backbone.told.append(("room", event(number)))
    async with (
        serving(backbone, max_catching_up=1, turn_s=0.000_001) as (_, address),
        remote(address, 1) as full,
        remote(address, 2) as other,
        remote(address, 3) as thin,
    ):
        await asyncio.gather(
            full.joins("room", "full", cursor=b""),
            other.joins("room", "other", cursor=b""),
            thin.joins("room", "thin", hosted=True, cursor=b""),
        )
        for peer in (full, other, thin):
            await until(lambda peer=peer: peer.all(Mark) and peer.all(Mark)[-1].present)  # type: ignore[misc]
        assert [frame.wire for frame in full.all(SdsMessage)] == wires
        assert [frame.wire for frame in other.all(SdsMessage)] == wires
        backbone.tell("room", event(61))
        await thin.hears(EventFrame, 61)
        assert [frame.number for frame in thin.all(EventFrame)] == list(range(1, 62))


async def test_who_reads_nothing_of_what_is_said_is_dropped_in_time() -> None:
    async with (
        serving(MemoryBackbone(), stall_timeout_s=0.5) as (driver, address),
        deaf_readers(address, 1) as (deaf,),
        remote(address, 2) as speaker,
    ):
        await until(lambda: driver.metrics.memberships == 1)
        await speaker.joins("room", "speaker")
        for number in range(40):
            await speaker.say(SdsMessage("room", message("speaker", f"m{number}", content=bytes(100_000))))
        assert (await deaf.closed()).code == CloseCode.OVERLOADED
        await until(lambda: len(driver.links.open) == 1)
        assert driver.unsent.bytes == 0
        await asyncio.sleep(1)
        assert speaker.connection.close_reason is None, "who has nothing to read is not idle"


async def test_above_the_bound_of_all_unsent_bytes_the_slowest_reader_is_dropped() -> None:
    async with (
        serving(MemoryBackbone(), max_unsent_bytes=3 * 1024**2) as (driver, address),
        deaf_readers(address, 3),
        remote(address, 2) as reader,
        remote(address, 3) as speaker,
    ):
        await until(lambda: driver.metrics.memberships == 3)
        await reader.joins("room", "reader")
        await speaker.joins("room", "speaker")
        for number in range(100):
            await speaker.say(SdsMessage("room", message("speaker", f"m{number}", content=bytes(100_000))))
            await reader.hears(SdsMessage, number + 1)
            assert driver.unsent.bytes <= 3 * 1024**2
        assert driver.metrics.closed["overloaded"]
        assert reader.connection.close_reason is None and speaker.connection.close_reason is None


async def test_coming_again_wins_no_new_share_of_refusals() -> None:
    async with serving(MemoryBackbone(), rejects_per_minute=5) as (_, address):
        for _ in range(2):
            async with remote(address, 1) as a:
                await a.say(*[SdsMessage("room", b"")] * 4)
                await asyncio.sleep(0)
                await a.say(AskHead("room"))
        async with remote(address, 1) as a:
            await a.say(*[SdsMessage("room", b"")] * 2)
            assert (await a.closed()).code == CloseCode.PROTOCOL


async def test_only_so_many_connections_and_memberships_of_a_key_are_served() -> None:
    async with (
        serving(MemoryBackbone(), max_connections_per_peer=2, max_memberships=3) as (driver, address),
        remote(address, 1) as a,
        remote(address, 1) as b,
        remote(address, 2) as other,
    ):
        with pytest.raises(ConnectError, match="too many connections of this key"):
            async with remote(address, 1):
                pass
        assert (driver.metrics.refused, driver.metrics.closed.total()) == ({"overloaded": 1}, 0)
        assert driver.metrics.connections_total == 3
        await a.joins("one", "a")
        await a.joins("two", "a")
        await b.joins("one", "b")
        await b.say(Join("two", "spec", "b"))
        assert (await b.hears(Refused))[0].code == "sds.join.too_many"
        await a.say(Leave("two"))
        # The edge reads the connections of a key independently of one another.
        await until(lambda: driver.metrics.memberships == 2)
        await b.joins("two", "b")
        await other.joins("two", "other")


async def test_a_large_answer_is_read_and_said_in_parts() -> None:
    backbone = MemoryBackbone()
    for number in range(100):
        backbone.keep("room", message("x", f"m{number}", number))
    async with serving(backbone) as (driver, address), remote(address, 1) as a:
        await a.joins("room", "a")
        await a.say(Fetch("room", 7, tuple(HistoryEntry(f"m{number}") for number in range(100))))
        await until(lambda: a.all(Fetched) and not a.all(Fetched)[-1].more)
        assert len(a.all(Fetched)) > 1
        assert sum(len(part.wires) for part in a.all(Fetched)) == 100
        await until(lambda: not next(iter(driver.links.open.values())).budget.requests)


async def test_requests_of_a_member_that_left_no_longer_count() -> None:
    async with (
        serving(MemoryBackbone(), max_requests=1) as (driver, address),
        remote(address, 1) as a,
        remote(address, 2) as b,
    ):
        await a.joins("room", "a")
        await b.joins("room", "b")
        await a.say(Fetch("room", 1, (HistoryEntry("x"),)))
        await b.hears(Fetch)
        await a.say(Leave("room"))
        await a.joins("room", "a")
        await a.hears(Head, 2)
        assert all(link.budget.requests == 0 for link in driver.links.open.values())


def test_a_key_that_left_is_remembered_and_a_bounded_number_of_them() -> None:
    budgets = edge_budgets(SdsEdgeSettings(max_remembered_peers=2))
    first = budgets.begin(b"first", 0.0)
    assert budgets.begin(b"first", 0.0) is first
    budgets.end(b"first")
    budgets.end(b"first")
    assert budgets.begin(b"first", 1.0) is first
    budgets.end(b"first")
    for name in (b"second", b"third"):
        budgets.begin(name, 1.0)
        budgets.end(name)
    assert budgets.begin(b"first", 2.0) is not first


async def test_turns_are_bounded_and_one_a_key() -> None:
    settings = SdsEdgeSettings()
    turns, budgets = ReplayLimiter(2, 10.0), edge_budgets(settings)
    keys = [budgets.of(bytes([number]), 0.0) for number in range(3)]
    numbers: list[int] = []

    async def hold(number: int, key: int, until: asyncio.Event) -> None:
        async with turns.turn(keys[key]):
            numbers.append(number)
            await until.wait()

    ends = [asyncio.Event() for _ in range(4)]
    async with asyncio.TaskGroup() as group:
        for number, key in enumerate((0, 0, 1, 2)):
            group.create_task(hold(number, key, ends[number]))
        await until(lambda: len(numbers) == 2)
        assert numbers == [0, 2] and turns.waiting == 1
        ends[2].set()
        await until(lambda: numbers == [0, 2, 3])
        for end in ends:
            end.set()
    assert sorted(numbers) == [0, 1, 2, 3] and turns.waiting == 0
