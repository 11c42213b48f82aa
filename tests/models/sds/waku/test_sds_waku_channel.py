"""A channel of ours and one of the running @waku/sds talk: order, acknowledgements, re-sends, syncs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import heappop, heappush

import pytest

from culm_models.sds.wire.codec import decode
from tests.models.sds.waku.waku_for_tests import NOW, Culm, Waku, waku_id
from tests.support.sds.waku import WakuSds, running


@pytest.fixture(scope="module")
def driver() -> Iterator[WakuSds]:
    """The running driver."""
    with running() as waku_sds:
        yield waku_sds


def test_a_conversation_leaves_the_same_log_and_filter_on_both(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    ids = []
    for number in range(40):
        now = NOW + number // 3
        if number % 5 < 2:
            wire = culm.send(f"culm {number}".encode(), now)
            waku.receive(wire, now)
        else:
            wire = waku.send(f"waku {number}".encode(), now)
            culm.receive(wire, now)
        ids.append(decode(wire, "js").message_id)
    state = waku.state(NOW + 20)
    assert [message_id for _, message_id in culm.log] == ids
    assert waku.log(NOW + 20) == culm.log
    assert culm.channel.status().bloom_filter.hex() == state["bloom"]
    assert culm.channel.status().lamport_timestamp == int(state["lamport"])
    assert not state["incoming"] and not culm.channel.status().incoming
    assert not culm.seen("rejected") and not culm.seen("missing")
    theirs = [message_id for message_id in ids if message_id not in culm.delivered]
    assert waku.seen("in:message-delivered") == theirs


def test_messages_sent_at_once_come_into_the_same_order(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    for number in range(20):
        now = NOW + 10 * number
        ours, theirs = culm.send(b"c%d" % number, now), waku.send(b"w%d" % number, now)
        assert decode(ours, "js").lamport_timestamp == decode(theirs, "js").lamport_timestamp
        culm.receive(theirs, now)
        waku.receive(ours, now)
    assert culm.log == waku.log(NOW + 200)
    assert len(culm.log) == 40


def test_histories_acknowledge_both_ways(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    first = culm.send(b"hello", NOW)
    waku.receive(first, NOW + 1)
    culm.receive(waku.send(b"hello yourself", NOW + 2), NOW + 3)
    (acknowledged,) = culm.seen("acknowledged")
    assert acknowledged.message_id == decode(first, "js").message_id
    assert (acknowledged.by, acknowledged.evidence) == ("causal_history", ("waku",))
    assert not culm.channel.status().outgoing
    waku.receive(culm.send(b"bye", NOW + 4), NOW + 5)
    assert waku.seen("out:message-acknowledged") == [waku_id(b"hello yourself")]
    assert waku.state(NOW + 6)["outgoing"] == []


def test_our_messages_in_their_filters_are_possibly_acknowledged_then_acknowledged(driver: WakuSds) -> None:
    culm = Culm("culm")
    peers = [Waku(driver, f"waku-{number}", causalHistorySize=1) for number in range(2)]
    first, second = culm.send(b"first", NOW), culm.send(b"second", NOW)
    for peer in peers:
        peer.receive(first, NOW + 1)
        peer.receive(second, NOW + 1)
    message_id = decode(first, "js").message_id
    for turn in range(2):
        culm.receive(peers[0].send(b"mine %d" % turn, NOW + 2 + turn), NOW + 2 + turn)
    events = [event for event in culm.seen("possibly_acknowledged") if event.message_id == message_id]
    assert [event.evidence for event in events] == [("waku-0",)], "twice the same sender counts once"
    assert message_id not in [event.message_id for event in culm.seen("acknowledged")]
    culm.receive(peers[1].send(b"other", NOW + 4), NOW + 4)
    assert message_id not in [event.message_id for event in culm.seen("acknowledged")], "an equal filter"
    culm.receive(peers[1].send(b"another", NOW + 5), NOW + 5)
    (acknowledged,) = [event for event in culm.seen("acknowledged") if event.message_id == message_id]
    assert acknowledged.by == "bloom_filter"
    assert set(acknowledged.evidence) == {"waku-0", "waku-1"}


def test_their_messages_in_our_filter_are_possibly_acknowledged_then_acknowledged(driver: WakuSds) -> None:
    culm, waku = Culm("culm", causal_history_size=1), Waku(driver, "waku")
    for content in (b"first", b"second"):
        culm.receive(waku.send(content, NOW), NOW + 1)
    waku.receive(culm.send(b"one", NOW + 2), NOW + 2)
    assert waku.seen("out:message-possibly-acknowledged") == [{"messageId": waku_id(b"first"), "count": 1}], (
        "the second stands in the causal history"
    )
    waku.receive(culm.send(b"two", NOW + 3), NOW + 3)
    assert waku.seen("out:message-acknowledged") == [waku_id(b"second"), waku_id(b"first")]


def test_our_lost_message_is_sent_again_and_acknowledged_by_their_sync(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    lost = culm.send(b"lost at first", NOW)
    now, again = culm.until_sent(NOW, "retry")
    assert again == [lost]
    waku.receive(again[0], now)
    assert waku.log(now) == culm.log
    (sync,) = waku.sync(now + 1)
    culm.receive(sync, now + 1)
    assert [event.message_id for event in culm.seen("acknowledged")] == [decode(lost, "js").message_id]
    assert culm.seen("sync_received")[0].sender_id == "waku"


def test_their_re_sent_message_is_delivered_once_and_acknowledged_by_our_early_sync(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    first = waku.send(b"again and again", NOW)
    culm.receive(first, NOW)
    # It has not heard us: after 30 seconds it says the same again.
    now = NOW + 30_000
    for wire in waku.resend(now):
        assert decode(wire, "js") == decode(first, "js")
        culm.receive(wire, now)
    assert culm.delivered == [waku_id(b"again and again")]
    now, wires = culm.until_sent(now, "sync")
    assert now < NOW + 60_000
    for wire in wires:
        waku.receive(wire, now)
    assert waku.seen("out:message-acknowledged") == [waku_id(b"again and again")]
    assert [detail["message_id"] for detail in waku.seen("in:sync-received")]
    assert waku.resend(now + 30_000) == []


def test_a_message_that_overtakes_is_delivered_after_its_parent(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    parent, child = waku.send(b"parent", NOW), waku.send(b"child", NOW + 1)
    culm.receive(child, NOW + 2)
    assert [entry.message_id for entry in culm.seen("missing")[0].entries] == [waku_id(b"parent")]
    assert culm.delivered == []
    culm.receive(parent, NOW + 3)
    assert culm.delivered == [waku_id(b"parent"), waku_id(b"child")]
    # And in the other direction.
    parent, child = culm.send(b"our parent", NOW + 4), culm.send(b"our child", NOW + 5)
    ids = [decode(wire, "js").message_id for wire in (parent, child)]
    waku.receive(child, NOW + 6)
    assert waku.deliver(NOW + 6) == ids[:1]
    waku.receive(parent, NOW + 7)
    assert waku.deliver(NOW + 7) == []
    assert waku.seen("in:message-delivered") == ids
    assert culm.log == waku.log(NOW + 8)


def test_ephemeral_messages_arrive_and_leave_nothing_behind(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    waku.receive(culm.send(b"hello", NOW), NOW)
    log, bloom = culm.log, culm.channel.status().bloom_filter
    culm.receive(waku.send(b"typing", NOW + 1, ephemeral=True), NOW + 1)
    (delivered,) = culm.seen("delivered")
    assert (delivered.content, delivered.ephemeral, delivered.position) == (b"typing", True, None)
    received = waku.receive(culm.send(b"typing too", NOW + 2, ephemeral=True), NOW + 2)
    assert (received["kind"], bytes.fromhex(received["content"])) == ("EphemeralMessage", b"typing too")
    assert culm.log == log == waku.log(NOW + 3)
    assert culm.channel.status().bloom_filter == bloom
    assert len(culm.channel.status().outgoing) == 1
    assert waku.state(NOW + 3)["outgoing"] == []


def test_syncs_tell_both_sides_what_they_lack(driver: WakuSds) -> None:
    culm, waku = Culm("culm"), Waku(driver, "waku")
    assert waku.sync(NOW) == [], "nothing to tell"
    lost = culm.send(b"lost", NOW)
    now, wires = culm.until_sent(NOW, "sync")
    waku.receive(wires[0], now)
    assert waku.deliver(now) == [decode(lost, "js").message_id]
    theirs = waku.send(b"lost too", now + 1)
    (sync,) = waku.sync(now + 2)
    culm.receive(sync, now + 2)
    (missing,) = culm.seen("missing")
    assert [entry.message_id for entry in missing.entries] == [decode(theirs, "js").message_id]
    assert missing.entries[0].sender_id == "waku"
    assert decode(sync, "js").message_id not in [message_id for _, message_id in culm.log]
    culm.receive(theirs, now + 3)
    waku.receive(lost, now + 3)
    waku.deliver(now + 3)
    assert culm.log == waku.log(now + 4)


# A group of ours and of the running @waku/sds on a bad network ends with the same log on everyone.


STEP_MS = 1_000
TALK_STEPS = 60
STEPS_MOST = 600
QUERY_STEPS = 10
LOSS, TWICE = 0.2, 0.1
SLOWEST_MS = 4_000


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
        for index, (name, waku) in enumerate(self.wakus.items()):
            missing = waku.deliver(now)
            if (number + index) % QUERY_STEPS == 0:
                for message_id in missing:
                    waku.receive(self._store[message_id], now)
            self.broadcast(name, waku.answer(now), now)
            if (number + 7 * index) % 30 == 29:
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
