"""A batch that is done again gives the same bytes, whatever workers remember; other batches tell the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.sds.channel import Channel
from culm_streaming.sds.output_records import OutputRecord
from culm_streaming.sds.record import Cache
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.step import Row, fire, step
from culm_streaming.stateful.job_state import MemoryState
from tests.support.sds.shards import START_MS, Shard, content, events, outs, peer, stored

SETTINGS = ChannelsSettings(
    shards=1, tail_bytes=400, chunk_bytes=1_200, compact_bytes=3_000, lineage=3, tokens=4, finished=64
)
CHANNELS = ("c", "d")
FEW = {
    "bloom_capacity": 20,
    "resend_unacknowledged_ms": 3_000,
    "sync_floor_ms": 4_000,
    "sync_spread_ms": 2_000,
}


def written_in(state: MemoryState, rows: list[Row], now_ms: int, cache: Cache) -> list[OutputRecord]:
    """One micro-batch as Spark does it: rows, then the timer where it has expired."""
    output = step(state, sorted(rows), now_ms, SETTINGS, cache)
    fired = output.timer_before_ms
    if fired is None or fired > now_ms:
        return output.records
    return output.records + fire(state, fired, now_ms, SETTINGS, cache).records


@dataclass
class History:
    """Batches as (time, rows): a conversation of hosted and remote participants over a bad network."""

    seed: int
    batches: list[tuple[int, list[Row]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        shard = Shard(SETTINGS)
        remote = {(name, channel): peer(name, channel) for name in ("bob", "carol") for channel in CHANNELS}
        for channel in CHANNELS:
            shard.ask(channel, "join", "alice", settings=dict(FEW))
        on_the_way: list[tuple[Channel | None, str, bytes]] = []
        for _ in range(chance.randrange(12, 40)):
            shard.now_ms += chance.choice((1, 200, 1_000, 2_500, 9_000))
            for _ in range(chance.randrange(4)):
                self._act(shard, remote, on_the_way, chance)
            chance.shuffle(on_the_way)
            for _ in range(chance.randrange(len(on_the_way) + 1)):
                receiver, channel, wire = on_the_way.pop()
                if chance.random() < 0.2:
                    continue
                if chance.random() < 0.2:
                    on_the_way.append((receiver, channel, wire))
                if receiver is None:
                    shard.hear(channel, wire, from_store=chance.random() < 0.1)
                else:
                    receiver.receive(wire, shard.now_ms)
            self.batches.append((shard.now_ms, list(shard.rows)))
            records = shard.batch()
            for channel in CHANNELS:
                for out in outs(records, channel):
                    on_the_way += [
                        (participant, channel, out.wire)
                        for (_, joined), participant in remote.items()
                        if joined == channel
                    ]

    @staticmethod
    def _act(
        shard: Shard,
        remote: dict[tuple[str, str], Channel],
        on_the_way: list[tuple[Channel | None, str, bytes]],
        chance: random.Random,
    ) -> None:
        channel = chance.choice(CHANNELS)
        what = chance.randrange(10)
        if what < 5:
            sender = remote[chance.choice(("bob", "carol")), channel]
            # A clock that is ahead stays ahead.
            is_ahead = sender.summary().lamport_timestamp > shard.now_ms + 3_600_000
            ahead_ms = 7_200_000 if is_ahead else chance.choice((0, 0, 7_200_000))
            wire = content(sender, b"%d" % chance.randrange(5), shard.now_ms + ahead_ms)
            on_the_way += [(None, channel, wire), (None, channel, wire)]
            on_the_way += [
                (participant, channel, wire) for (_, at), participant in remote.items() if at == channel
            ]
        elif what < 8:
            shard.ask(channel, "send", chance.choice(("alice", "bea")), b"%d" % chance.randrange(3))
        elif what == 8:
            kind = chance.choice(("join", "leave", "resend"))
            again = chance.randint(1, shard.tokens) if chance.random() < 0.5 else None
            shard.ask(channel, kind, chance.choice(("alice", "bea")), again=again)  # type: ignore[arg-type]
        else:
            shard.hear(channel, chance.randbytes(chance.randrange(40)))


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_batch_gives_the_same_bytes_whatever_its_worker_remembers(seed: int, luck: int) -> None:
    """Workers take turns, lose their memory, and do batches that come to nothing."""
    chance = random.Random(luck)
    workers = [Cache(100_000), Cache(100_000), Cache(700)]
    state = MemoryState()
    for now_ms, rows in History(seed).batches:
        again, nothing = state.copy(), state.copy()
        expected = written_in(again, rows, now_ms, Cache(0))
        if chance.random() < 0.3:
            written_in(nothing, rows, now_ms, chance.choice(workers))
        if chance.random() < 0.1:
            workers[0] = Cache(100_000)
        assert written_in(state, rows, now_ms, chance.choice(workers)) == expected
        assert state.values == again.values


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_other_batches_deliver_and_store_the_same_in_the_same_order(seed: int, luck: int) -> None:
    chance = random.Random(luck)
    batches = History(seed).batches
    runs: list[list[OutputRecord]] = []
    for merges in (False, True):
        state, cache, records = MemoryState(), Cache(100_000), list[OutputRecord]()
        kept: list[Row] = []
        for now_ms, rows in batches:
            kept += rows
            if not merges or now_ms == batches[-1][0] or chance.random() < 0.4:
                records += written_in(state, kept, now_ms, cache)
                kept = []
        runs.append(records)
    for channel in CHANNELS:
        orders, contents = [], []
        for records in runs:
            happened = events(records, channel)
            assert [event.number for event in happened] == list(range(1, len(happened) + 1))
            delivered = [event.message_id for event in happened if event.kind == "delivered"]
            assert len(delivered) == len(set(delivered))
            orders.append([event.message_id for event in happened if event.kind in ("delivered", "sent")])
            ids = [message.message_id for message in stored(records, channel)]
            assert len(ids) == len(set(ids))
            contents.append({message.message_id: message for message in stored(records, channel)}.keys())
        assert orders[0] == orders[1]
        assert contents[0] == contents[1]


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_what_is_sent_again_is_what_was_sent_and_children_never_come_before_parents(seed: int) -> None:
    state, cache, records = MemoryState(), Cache(2_000), list[OutputRecord]()
    for now_ms, rows in History(seed).batches:
        records += written_in(state, rows, now_ms, cache)
    for channel in CHANNELS:
        wires: dict[str, bytes] = {}
        for out in outs(records, channel):
            assert wires.setdefault(out.message_id, out.wire) == out.wire
        in_log: set[str] = set()
        reader = peer("reader", channel)
        by_id = {message.message_id: message.wire for message in stored(records, channel)}
        for event in events(records, channel):
            if event.kind not in ("delivered", "sent") or event.message_id in in_log:
                continue
            # A reader that takes the messages in this order never finds one missing.
            reactions = reader.receive(by_id[event.message_id], START_MS + 3_600_000 * 3).events
            gap = event.details.get("gap", ())
            assert [reaction.kind for reaction in reactions] == ["received", "delivered"] or gap
            in_log.add(event.message_id)
