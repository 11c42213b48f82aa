"""A group of ours and of the running @waku/sds on a bad network ends with the same log on everyone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heappop, heappush

import pytest

from culm_models.sds.wire.codec import decode
from tests.models.sds.waku.waku_for_tests import NOW, Culm, Waku
from tests.support import waku_sds
from tests.support.waku_sds import WakuSds

STEP_MS = 1_000
TALK_STEPS = 60
STEPS_MOST = 600
QUERY_STEPS = 10
LOSS, TWICE = 0.2, 0.1
SLOWEST_MS = 4_000


@pytest.fixture(scope="module")
def driver() -> Iterator[WakuSds]:
    """The running driver."""
    with waku_sds.running() as found:
        yield found


class Group:
    """Participants of both kinds, a network that loses, repeats and overtakes, and a store that has all.

    The store is needed: @waku/sds asks the channel for a missing message once and never again.
    """

    def __init__(self, driver: WakuSds, seed: int) -> None:
        self.draw = random.Random(seed)
        self.culms = {f"culm-{number}": Culm(f"culm-{number}") for number in range(2)}
        names = [f"waku-{number}" for number in range(3)]
        self.wakus = {name: Waku(driver, name, causalHistorySize=10) for name in names}
        self._store: dict[str, bytes] = {}
        self._under_way: list[tuple[int, int, str, bytes]] = []
        self._count = 0

    def broadcast(self, sender: str, wires: list[bytes], now: int) -> None:
        """Put messages on their way to everyone else."""
        for wire in wires:
            message = decode(wire, "js")
            if message.kind == "content":
                self._store[message.message_id] = wire
            for name in (*self.culms, *self.wakus):
                copies = 1 + (self.draw.random() < TWICE)
                if name == sender or self.draw.random() < LOSS:
                    continue
                for _ in range(copies):
                    self._count += 1
                    arrival = now + self.draw.randrange(SLOWEST_MS)
                    heappush(self._under_way, (arrival, self._count, name, wire))

    def step(self, number: int, now: int) -> None:
        """Let arrive what arrives by now, and everyone do what they do from time to time."""
        while self._under_way and self._under_way[0][0] <= now:
            _, _, name, wire = heappop(self._under_way)
            if name in self.wakus:
                self.wakus[name].receive(wire, now)
            else:
                self.broadcast(name, self.culms[name].receive(wire, now), now)
        for name, culm in self.culms.items():
            self.broadcast(name, culm.tick(now), now)
            wanted, culm.wanted = culm.wanted, []
            for message_id in wanted:
                self.broadcast(name, culm.receive(self._store[message_id], now, "store"), now)
        for place, (name, waku) in enumerate(self.wakus.items()):
            missing = waku.deliver(now)
            if (number + place) % QUERY_STEPS == 0:
                for message_id in missing:
                    waku.receive(self._store[message_id], now)
            self.broadcast(name, waku.answer(now), now)
            if (number + 7 * place) % 30 == 29:
                self.broadcast(name, waku.resend(now) + waku.sync(now), now)

    def speak(self, number: int, now: int) -> None:
        """One of them says something."""
        name = self.draw.choice([*self.culms, *self.wakus])
        content = f"{name} says {number}".encode()
        waku = self.wakus.get(name)
        wire = self.culms[name].send(content, now) if waku is None else waku.send(content, now)
        self.broadcast(name, [wire], now)

    def logs(self, now: int) -> list[list[tuple[int, str]]]:
        """The logs of all, ours first."""
        theirs = [waku.log(now) for waku in self.wakus.values()]
        return [culm.log for culm in self.culms.values()] + theirs

    def is_quiet(self) -> bool:
        """Whether everything that ours have sent is acknowledged."""
        return not any(culm.channel.status().outgoing for culm in self.culms.values())


@pytest.mark.parametrize("seed", [1, 2])
def test_all_logs_are_the_same_in_the_end(driver: WakuSds, seed: int) -> None:
    group = Group(driver, seed)
    now = NOW
    for number in range(STEPS_MOST):
        now += STEP_MS
        if number < TALK_STEPS:
            group.speak(number, now)
        group.step(number, now)
        settled = number > TALK_STEPS and number % QUERY_STEPS == 0 and group.is_quiet()
        if settled and all(len(log) == TALK_STEPS for log in group.logs(now)):
            break
    first, *others = group.logs(now)
    assert len(first) == TALK_STEPS
    assert [log == first for log in others] == [True] * len(others), f"seed {seed}"
    for culm in group.culms.values():
        own = {event.message_id for event in culm.seen("sent")}
        assert not culm.seen("gave_up") and not culm.seen("lost") and not culm.seen("rejected")
        assert {event.message_id for event in culm.seen("acknowledged")} == own
        assert sorted(culm.delivered) == sorted(each for _, each in culm.log if each not in own), "once each"
    assert any(culm.seen("missing") for culm in group.culms.values()), "the network lost something"


def test_the_driver_is_told_apart_from_a_message(driver: WakuSds) -> None:
    waku = Waku(driver, "waku")
    assert waku.receive(b"\xff", NOW)["kind"] is None
    with pytest.raises(AssertionError):
        driver.ask("nothing like that", name="x")
    assert decode(waku.send(b"still there", NOW), "js").content == b"still there"
