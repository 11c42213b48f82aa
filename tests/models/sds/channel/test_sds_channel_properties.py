"""Whatever is received, in whatever order: each id once, parents first or told as a gap, the log in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.sds.channel import Channel
from culm_models.sds.events import ChannelOutput, Delivered, Lost, Rejected, Sent
from culm_models.sds.settings import SdsSettings
from tests.models.sds.channels_for_tests import NOW, Peer, made

IDS = [f"m{number}" for number in range(10)]
HOUR_MS = 3_600_000
LAMPORTS = st.sampled_from([0, 1, NOW - 1, NOW, NOW + 1, NOW + HOUR_MS, NOW + 2 * HOUR_MS, 2**63, 2**64 - 1])


@dataclass(frozen=True)
class Said:
    """A message of somebody. Content is None for a sync, b"" for none."""

    message_id: str
    parents: tuple[str, ...]
    lamport: int
    sender: str
    content: bytes | None
    asks: tuple[str, ...]

    def wire(self) -> bytes:
        return made(
            self.message_id,
            *self.parents,
            lamport=self.lamport,
            sender=self.sender,
            content=self.content,
            asks=self.asks,
        )


SAID = st.builds(
    Said,
    st.sampled_from(IDS),
    st.lists(st.sampled_from(IDS), max_size=4).map(tuple),
    LAMPORTS,
    st.sampled_from(["eve", "bob", "carol", "alice"]),
    st.sampled_from([b"x", b"y", None]),
    st.lists(st.sampled_from(IDS), max_size=3).map(tuple),
)
STEPS = st.one_of(
    SAID,
    st.sampled_from([1, 10_000, 40_000, 700_000, HOUR_MS]),
    st.sampled_from(["send", "head", "restart"]),
)


@dataclass
class Witness:
    """Checks every step of a participant against what it has heard."""

    peer: Peer
    parents: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    now_ms: int = NOW

    def see(self, output: ChannelOutput) -> None:
        for event in output.events:
            if isinstance(event, Lost):
                self.lost.add(event.message_id)
            elif isinstance(event, Sent):
                assert event.message_id not in self.delivered
                self.delivered.add(event.message_id)
            elif isinstance(event, Delivered):
                assert event.message_id not in self.delivered, "each id once"
                # Another copy may have come with another history; one of them is that of this delivery.
                assert any(
                    all(
                        parent in self.delivered or parent in event.gap or parent == event.message_id
                        for parent in parents
                    )
                    for parents in self.parents[event.message_id]
                ), "parents first"
                self.delivered.add(event.message_id)
            elif isinstance(event, Rejected):
                assert event.code.startswith("sds.")

    def check(self) -> None:
        status = self.peer.channel.status()
        assert list(status.log) == sorted(status.log, key=lambda key: (key[0], key[1].encode()))
        assert {message_id for _, message_id in status.log} == self.delivered
        waiting = {message.message_id for message in status.incoming}
        assert not waiting & self.delivered
        received = waiting | self.delivered
        assert not {wanted.entry.message_id for wanted in status.missing} & received
        assert not set(status.lost) & received
        for message in status.incoming:
            assert message.missing and not set(message.missing) & self.delivered
        assert status.lamport_timestamp <= self.now_ms + HOUR_MS + len(self.delivered) + 1_000


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=30))
def test_whatever_is_heard_each_id_is_delivered_once_and_after_its_parents(
    steps: list[Said | int | str],
) -> None:
    witness = Witness(Peer("alice", max_wire_bytes=100_000))
    for step in steps:
        peer = witness.peer
        if isinstance(step, Said):
            witness.parents.setdefault(step.message_id, set()).add(step.parents)
            witness.see(peer.receive(step.wire(), witness.now_ms))
        elif isinstance(step, int):
            witness.now_ms += step
            witness.see(peer.tick(witness.now_ms))
            due_ms = peer.channel.next_due_ms()
            assert due_ms is None or due_ms > witness.now_ms, "all that was due is done"
        elif step == "send":
            witness.see(peer.channel.send("alice", b"own", witness.now_ms))
        elif step == "head":
            witness.see(peer.channel.compare_head([(NOW, each) for each in IDS[:3]], witness.now_ms))
        else:
            witness.peer = peer.restarted(whole=True)
            assert witness.peer.channel.status() == peer.channel.status()
        witness.check()


@settings(max_examples=80)
@given(
    order=st.permutations(range(12)),
    parents=st.lists(st.lists(st.integers(0, 10), max_size=3), min_size=12, max_size=12),
    again=st.lists(st.integers(0, 11), max_size=10),
)
def test_any_order_and_repetition_of_honest_messages_gives_one_log_and_nothing_waits(
    order: list[int], parents: list[list[int]], again: list[int]
) -> None:
    wires = [
        made(
            f"m{number:02}",
            *(f"m{parent:02}" for parent in parents[number] if parent < number),
            lamport=NOW + number // 2,
        )
        for number in range(12)
    ]
    bob = Peer("bob")
    for number in (*order, *again):
        bob.receive(wires[number])
    assert bob.log_ids == [f"m{number:02}" for number in range(12)]
    assert sorted(bob.delivered) == bob.log_ids
    status = bob.channel.status()
    assert (status.incoming, status.missing, status.lost) == ((), (), ())


# A driver that takes the journal seldom: the filter rolls over in between, and a restart misses nothing.


SETTINGS = SdsSettings(bloom_capacity=100, max_wire_bytes=0)
NOW_MS = 1_700_000_000_000
MESSAGES = 3_000


def hosting(participant_id: str) -> Channel:
    channel = Channel("c", "spec", SETTINGS, now_ms=NOW_MS, seed=b"seed")
    channel.join(participant_id, NOW_MS)
    return channel


def test_many_rollovers_between_two_looks_at_the_journal_leave_no_hole_in_the_filter() -> None:
    sender, channel = hosting("bob"), hosting("alice")
    chunks: list[bytes] = []
    for _ in range(3):
        mark = channel.journal_mark
        for number in range(MESSAGES):
            (outbound,) = sender.send("bob", number.to_bytes(2, "big"), NOW_MS).send
            channel.receive(outbound.wire, NOW_MS)
        sender.leave("bob", NOW_MS)
        sender.join("bob", NOW_MS)
        chunks.append(channel.journal_since(mark))
        channel.journal_kept(channel.journal_mark)

    restored, anew = hosting("zoe"), hosting("zoe")
    for chunk in chunks:
        restored.apply_journal(chunk)
    anew.apply_journal(channel.journal_whole())
    for copy in (restored, anew):
        copy.restore_head(channel.head())
        assert copy.journal_whole() == channel.journal_whole()
    sent = [copy.send("alice", b"hi", NOW_MS, nonce=b"n").send for copy in (channel, restored, anew)]
    assert sent[0] == sent[1] == sent[2]
