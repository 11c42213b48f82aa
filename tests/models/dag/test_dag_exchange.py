"""Rules of one connection (reference 6, R27, R34): what is taken, what ends it, what is acknowledged when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, Cid, cid_of
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import (
    DagAcknowledged,
    ExchangeEvent,
    NodesReceived,
    ShardSpooled,
    TokenReceived,
)
from culm_models.dag.exchange.ranges import bits_of, chunk_bit, ranges_of
from culm_models.dag.exchange.settings import ExchangeSettings, SpaceAbility
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.wire.codec import DagMessageReader, frame_of
from culm_models.dag.wire.messages import (
    CHUNK_SIZE,
    AckStatus,
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagMessage,
    DagOffer,
    DagWant,
)
from culm_models.testing.dag.replica import MemoryReplica
from culm_models.testing.dag.scenario import SEEDS, SPACES, large_shard

from .signers import DIDS, ucan

SPACE = SPACES[0]
SETTINGS = ExchangeSettings("bound", bytes(32), spaces=(SPACE,))
HELLO = DagHello(1_000_000, (SPACE,), "bound", bytes(32))
SHARD, SHARD_BYTES = large_shard(0)
SIZE = len(SHARD_BYTES)


class Talk:
    """One end, and a test that speaks as the other."""

    def __init__(self, replica: MemoryReplica | None = None, settings: ExchangeSettings = SETTINGS) -> None:
        self.replica = replica or MemoryReplica()
        self.exchange = Exchange(self.replica, settings, SPACES[1])

    def say(self, *messages: DagMessage) -> list[ExchangeEvent]:
        return self.exchange.receive(b"".join(map(frame_of, messages)))

    def hear(self) -> list[DagMessage]:
        heard = DagMessageReader()
        messages: list[DagMessage] = []
        while frame := self.exchange.next_frame():
            messages += heard.feed(frame)
        return messages

    @property
    def code(self) -> str | None:
        return self.exchange.dropped.code if self.exchange.dropped else None


def offer(*heads: Cid, shards: tuple[tuple[Cid, int], ...] = ()) -> DagOffer:
    return DagOffer(SPACE, heads, (), shards)


def chunk(offset: int = 0, *, size: int = SIZE, shard: Cid = SHARD) -> DagChunk:
    length = min(CHUNK_SIZE, size - offset)
    return DagChunk(SPACE, shard, size, offset, SHARD_BYTES[offset : offset + length].ljust(length, b"\0"))


def of_kind(kind: type, messages: list[DagMessage]) -> list[DagMessage]:
    return [message for message in messages if isinstance(message, kind)]


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((offer(),), "dag.unexpected"),
        ((HELLO, HELLO), "dag.unexpected"),
        ((HELLO, DagDone(SPACES[2], (), None)), "dag.unexpected"),
        ((HELLO, offer(shards=((SHARD, SIZE), (SHARD, SIZE + 1)))), "dag.size_changed"),
    ],
)
def test_messages_out_of_place_end_the_connection(messages: tuple[DagMessage, ...], code: str) -> None:
    talk = Talk()
    talk.say(*messages)
    assert talk.code == code
    assert talk.exchange.next_frame() == b""


def test_a_chunk_has_the_offered_size_and_comes_once() -> None:
    for second, code in [
        (chunk(size=SIZE + CHUNK_SIZE), "dag.size_changed"),
        (chunk(), "dag.overlap"),
    ]:
        talk = Talk()
        talk.say(HELLO, offer(shards=((SHARD, SIZE),)))
        talk.hear()
        talk.say(chunk(), second)
        assert talk.code == code


def test_what_nobody_asked_for_is_dropped_and_too_much_of_it_ends_the_connection() -> None:
    talk = Talk(settings=replace(SETTINGS, unasked_bytes=CHUNK_SIZE + 10))
    node = encode_append([])
    assert talk.say(HELLO, DagBlocks(SPACE, (node.data,)), chunk())[1:] == []
    assert (talk.replica.blocks, talk.replica.spools, talk.code) == ({}, {}, "dag.unasked")


def test_nothing_is_acknowledged_before_it_is_settled() -> None:
    talk = Talk()
    node = encode_append([SHARD])
    talk.say(HELLO, offer(node.cid, shards=((SHARD, SIZE),)))
    assert {want.nodes for want in talk.hear() if isinstance(want, DagWant)} == {(node.cid,), ()}
    events = talk.say(DagBlocks(SPACE, (node.data,)), chunk(), chunk(CHUNK_SIZE))
    assert events == [NodesReceived(SPACE, ((node.cid, node.data),)), ShardSpooled(SPACE, SHARD, SIZE)]
    assert talk.hear() == []
    talk.replica.put(SPACE, node.cid, node.data)
    talk.exchange.settle(SPACE, [(node.cid, AckStatus.DURABLE, None), (SHARD, AckStatus.REFUSED, "dag.hash")])
    ack, done = talk.hear()
    assert ack == DagAck(SPACE, ((node.cid, 0, None), (SHARD, 2, "dag.hash")))
    assert done == DagDone(SPACE, (node.cid,), None)


def test_a_transfer_goes_on_with_the_ranges_that_are_missing() -> None:
    talk = Talk()
    talk.replica.reserve(SPACES[1], SPACE, SHARD, SIZE)
    talk.replica.spool(SPACES[1], SHARD, 0, SHARD_BYTES[:CHUNK_SIZE])
    talk.say(HELLO, offer(shards=((SHARD, SIZE),)))
    (want,) = of_kind(DagWant, talk.hear())
    assert want == DagWant(SPACE, (), ((SHARD, ((CHUNK_SIZE, SIZE - CHUNK_SIZE),)),))
    assert talk.say(chunk(CHUNK_SIZE)) == [ShardSpooled(SPACE, SHARD, SIZE)]
    assert talk.replica.accept(SPACES[1], SPACE, SHARD) == (AckStatus.DURABLE, None)


def spools(talk: Talk) -> list[Cid]:
    return [shard for _, shard in talk.replica.spools]


@pytest.mark.parametrize("status", [AckStatus.NOT_HERE, AckStatus.LATER, AckStatus.REFUSED])
def test_a_shard_that_does_not_come_takes_nothing_up(status: AckStatus) -> None:
    talk = Talk()
    talk.say(HELLO, offer(shards=((SHARD, SIZE),)))
    talk.hear()
    assert spools(talk) == [SHARD]
    code = "dag.schema" if status is AckStatus.REFUSED else None
    talk.say(DagAck(SPACE, ((SHARD, int(status), code),)))
    assert not spools(talk)


def test_what_is_cancelled_or_left_behind_takes_nothing_up_unless_some_of_it_came() -> None:
    for is_cancelled in (True, False):
        for come in ((), (chunk(),)):
            talk = Talk()
            talk.say(HELLO, offer(shards=((SHARD, SIZE),)))
            talk.hear()
            talk.say(*come)
            if is_cancelled:
                talk.exchange.cancel(SPACE, [SHARD])
            else:
                talk.exchange.close()
            assert spools(talk) == [SHARD] * len(come)


class FullReplica(MemoryReplica):
    """A replica that has capacity for nothing when it comes."""

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> bool:
        return False


def test_a_shard_for_which_there_is_no_capacity_any_more_is_cancelled_and_comes_later() -> None:
    talk = Talk(FullReplica())
    talk.say(HELLO, offer(shards=((SHARD, SIZE),)))
    talk.hear()
    assert not talk.say(chunk(), chunk(CHUNK_SIZE))
    later = ((SHARD, int(AckStatus.LATER), "dag.spool_full"),)
    assert talk.hear()[:2] == [DagCancel(SPACE, (SHARD,)), DagAck(SPACE, later)]
    assert not spools(talk) and talk.code is None


def test_long_messages_are_read_in_short_steps() -> None:
    heads = tuple(cid_of(DAG_CBOR, number.to_bytes(4, "big")) for number in range(2_000))
    blocks = tuple(number.to_bytes(4, "big") for number in range(2_000))
    talk = Talk()
    talk.say(HELLO, offer(*heads))
    frames = frame_of(DagBlocks(SPACE, blocks)) + frame_of(DagWant(SPACE, heads, ()))
    steps = list(talk.exchange.receive_steps(frames))
    assert len(steps) > 60
    received = [event for events in steps for event in events if isinstance(event, NodesReceived)]
    assert [block for event in received for _, block in event.blocks] == list(blocks)
    assert max(len(event.blocks) for event in received) < 50


def test_a_wanted_node_is_followed_by_what_it_builds_on() -> None:
    replica = MemoryReplica()
    first = encode_append([])
    second = encode_append([SHARD], first.cid)
    for node in (first, second):
        replica.put(SPACE, node.cid, node.data)
    talk = Talk(replica)
    talk.say(HELLO, offer(), DagWant(SPACE, (second.cid,), ()))
    assert of_kind(DagBlocks, talk.hear()) == [DagBlocks(SPACE, (second.data, first.data))]


def test_what_is_not_here_or_fits_no_frame_is_said_so() -> None:
    replica = MemoryReplica()
    replica.add_shard(SPACE, SHARD, SHARD_BYTES)
    nothing = cid_of(CAR, b"nothing")
    talk = Talk(replica)
    talk.say(replace(HELLO, max_frame=1_000), offer(), DagWant(SPACE, (), ((SHARD, ()), (nothing, ()))))
    acks = [result for message in talk.hear() if isinstance(message, DagAck) for result in message.results]
    assert acks == [(nothing, 3, None), (SHARD, 2, "dag.frame_too_large")]


@pytest.mark.parametrize("ranges", [((0, 5),), ((0, SIZE + 1),), ((CHUNK_SIZE, CHUNK_SIZE),)])
def test_ranges_of_a_want_are_made_of_chunks(ranges: tuple[tuple[int, int], ...]) -> None:
    replica = MemoryReplica()
    replica.add_shard(SPACE, SHARD, SHARD_BYTES)
    talk = Talk(replica)
    talk.say(HELLO, DagWant(SPACE, (), ((SHARD, ranges),)))
    assert talk.code == "dag.schema"


def test_ranges_and_chunks_say_the_same() -> None:
    size = 5 * CHUNK_SIZE + 7
    for bits in range(1 << 6):
        assert bits_of(ranges_of(bits, size), size) == bits
    assert ranges_of(chunk_bit(5 * CHUNK_SIZE), size) == ((5 * CHUNK_SIZE, 7),)


def test_who_may_not_read_or_append_is_told_so() -> None:
    replica = MemoryReplica()
    node = encode_append([])
    replica.put(SPACE, node.cid, node.data)

    def nothing(space: bytes, ability: SpaceAbility) -> str | None:
        return "dag.not_allowed"

    talk = Talk(replica)
    talk.exchange = Exchange(replica, SETTINGS, SPACES[1], access=nothing)
    other = encode_append([SHARD])
    talk.say(HELLO, offer(other.cid), DagWant(SPACE, (node.cid,), ()))
    heard = talk.hear()
    assert of_kind(DagOffer, heard) == [offer()]
    refused = [result for message in heard if isinstance(message, DagAck) for result in message.results]
    assert [(cid, code) for cid, _, code in refused[1:]] == [
        (other.cid, "dag.not_allowed"),
        (node.cid, "dag.not_allowed"),
    ]


def test_what_follows_a_shown_token_waits_for_the_verdict_on_it() -> None:
    token = ucan(0, 1, {"can": "dag/append", "with": DIDS[0]})
    talk = Talk()
    talk.exchange = Exchange(talk.replica, SETTINGS, token.claims.issuer[2:])
    node = encode_append([])
    events = talk.say(HELLO, DagBlocks(SPACE, (token.block,)), offer(node.cid))
    assert events[1:] == [TokenReceived(SPACE, token.cid, token.block)]
    assert of_kind(DagWant, talk.hear()) == []
    talk.exchange.access_changed(SPACE)
    assert of_kind(DagWant, talk.hear()) == [DagWant(SPACE, (node.cid,), ())]


def test_a_room_that_is_full_is_answered_with_later() -> None:
    talk = Talk(settings=replace(SETTINGS, nodes_known_of=1))
    heads = sorted(encode_append([cid_of(CAR, bytes([n]))]).cid for n in range(3))
    talk.say(HELLO, offer(*heads))
    acks = [result for message in talk.hear() if isinstance(message, DagAck) for result in message.results]
    assert acks == [(head, 4, "dag.waiting_full") for head in heads[1:]]


def test_both_ends_are_done_when_each_has_what_the_other_has() -> None:
    replicas = [MemoryReplica(), MemoryReplica()]
    node = encode_append([SHARD])
    replicas[0].put(SPACE, node.cid, node.data)
    replicas[0].add_shard(SPACE, SHARD, SHARD_BYTES)
    ends = [Exchange(replicas[0], SETTINGS, SEEDS[1]), Exchange(replicas[1], SETTINGS, SEEDS[0])]
    acknowledged: list[Cid] = []
    for _ in range(20):
        for sender, receiver, replica, peer in [
            (ends[0], ends[1], replicas[1], SEEDS[0]),
            (ends[1], ends[0], replicas[0], SEEDS[1]),
        ]:
            while frame := sender.next_frame():
                for event in receiver.receive(frame):
                    match event:
                        case NodesReceived():
                            for cid, block in event.blocks:
                                receiver.settle(SPACE, [(cid, *replica.put(SPACE, cid, block))])
                        case ShardSpooled():
                            receiver.settle(SPACE, [(event.shard, *replica.accept(peer, SPACE, event.shard))])
                        case DagAcknowledged():
                            acknowledged.append(event.link)
                        case _:
                            pass
    assert [end.is_done(SPACE) for end in ends] == [True, True]
    assert sorted(acknowledged) == sorted([node.cid, SHARD])
    assert replicas[1].shard_bytes == {SHARD: SHARD_BYTES}
