"""Datagrams are read in short turns: whoever sends most waits longest, and nobody holds up the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

from culm_connectors.transport import Address
from culm_connectors.transport.quic.turns import Turns
from tests.support.waiting import until

HERE: Address = ("127.0.0.1", 1)


class Reader:
    """Takes datagrams and writes into a common log who read; each costs `cost_s` on the loop's clock."""

    def __init__(self, name: str, log: list[str], clock: Clock, cost_s: float = 0.0) -> None:
        self.name = name
        self.got: list[bytes] = []
        self.settled = 0
        self._log = log
        self._clock = clock
        self._cost_s = cost_s

    def receive(self, data: bytes, address: Address) -> None:
        self.got.append(data)
        self._log.append(self.name)
        self._clock.now_s += self._cost_s

    def settle(self) -> None:
        self.settled += 1


class Clock:
    """A loop whose time passes only where readers say that it does."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.rounds: list[object] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: object) -> object:
        self.rounds.append(callback)
        return asyncio.get_running_loop().call_soon(lambda: None)


def turns_on(clock: Clock) -> Turns:
    turns = Turns()
    turns._loop = clock  # type: ignore[assignment]
    return turns


async def test_takers_are_read_in_turns_and_each_in_order() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    many, few = Reader("many", log, clock), Reader("few", log, clock)
    for number in range(100):
        turns.add(many, b"%d" % number, HERE)
    for number in range(2):
        turns.add(few, b"%d" % number, HERE)
    turns.run()
    assert log[:34] == ["many"] * 32 + ["few"] * 2
    assert many.got == [b"%d" % number for number in range(100)]
    assert few.got == [b"0", b"1"]
    assert (many.settled, few.settled) == (4, 1)


async def test_expensive_datagrams_end_their_turn_and_the_round() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    costly, honest = Reader("costly", log, clock, cost_s=0.01), Reader("honest", log, clock)
    for _ in range(50):
        turns.add(costly, b"x", HERE)
    turns.add(honest, b"y", HERE)
    turns.run()
    assert log == ["costly"]
    assert len(clock.rounds) == 1
    turns.run()
    assert log == ["costly"]  # a round is due already, and the loop has its time until then
    clock.rounds.pop()()  # type: ignore[operator]
    assert log == ["costly", "honest", "costly"]


async def test_what_is_over_the_share_of_a_taker_is_dropped_and_counted() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    flooding, honest = Reader("flooding", log, clock), Reader("honest", log, clock)
    for _ in range(3_000):
        turns.add(flooding, bytes(1_200), HERE)
    turns.add(honest, b"y", HERE)
    assert turns.dropped == 3_000 - 2 * 1_024 * 1_024 // 1_456
    turns.run()
    assert len(flooding.got) + turns.dropped == 3_000
    assert honest.got == [b"y"]


async def test_all_that_waits_together_is_bounded() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    readers = [Reader(str(number), log, clock) for number in range(500)]
    for reader in readers:
        for _ in range(100):
            turns.add(reader, bytes(1_200), HERE)
    assert sum(inbox.size for inbox in turns._waiting.values()) <= 32 * 1_024 * 1_024
    turns.run()
    assert all(reader.got for reader in readers)


async def test_a_taker_that_is_forgotten_in_its_own_turn_reads_no_more() -> None:
    clock, log = Clock(), list[str]()
    turns = turns_on(clock)
    leaving = Reader("leaving", log, clock)
    for _ in range(100):
        turns.add(leaving, b"x", HERE)
    settle = leaving.settle
    leaving.settle = lambda: (settle(), turns.forget(leaving))  # type: ignore
    turns.run()
    assert len(leaving.got) == 32


async def test_rounds_go_on_by_themselves_until_nothing_waits() -> None:
    turns = Turns()
    log: list[str] = []
    reader = Reader("slow", log, Clock())
    take = reader.receive

    def slowly(data: bytes, address: Address) -> None:
        take(data, address)
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.003
        while loop.time() < until:
            pass

    reader.receive = slowly  # type: ignore[method-assign]
    for _ in range(10):
        turns.add(reader, b"x", HERE)
    turns.run()
    assert Counter(log)["slow"] < 10
    await until(lambda: Counter(log)["slow"] == 10)
    turns.stop()
