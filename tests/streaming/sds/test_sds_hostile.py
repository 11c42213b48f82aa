"""Whatever peers and producers write, a shard goes on: it tells what it refuses and writes sound records."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.sds.errors import SdsError
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile
from culm_streaming.sds.output_records import Topic
from culm_streaming.sds.step import Source
from culm_topics.records import RejectedRecord
from culm_topics.sds.keys import split_ack_key, split_channel_key, split_owner_key
from culm_topics.sds.records import (
    COMMANDS,
    SdsChannelRecord,
    SdsCommandRecord,
    SdsEventRecord,
    SdsFetchRecord,
    SdsMessageRecord,
    SdsOutRecord,
    SdsOwnerRecord,
)
from tests.support.sds.shards import START_MS, Shard, content, peer, token, values

PROFILES: tuple[Profile, ...] = ("spec", "js", "nim")
texts = st.one_of(
    st.text(max_size=6),
    st.sampled_from(("alice", "m" * 1_024, "m" * 1_025, "ü" * 512, "x" * 70_000, "😀" * 300, "\x00")),
)
hints = st.one_of(st.none(), st.binary(max_size=5), st.just(b"h" * 1_024), st.just(b"h" * 1_025))
lamports = st.one_of(
    st.none(),
    st.sampled_from((0, 1, 2**63, 2**64 - 1, START_MS, START_MS + 3_600_000, START_MS + 4_000_000)),
    # Profile nim counts in seconds.
    st.sampled_from((START_MS // 1_000, START_MS // 1_000 + 3_600)),
)
entries = st.builds(HistoryEntry, texts, hints, st.one_of(st.none(), texts))


@st.composite
def wires(draw: st.DrawFn, profile: Profile) -> bytes:
    """Messages with fields that are allowed, too long, missing or absurd, some of them cut or changed."""
    message = Message(
        draw(texts),
        draw(texts),
        draw(st.sampled_from(("c", "c", "c", "other"))),
        draw(lamports),
        tuple(draw(st.lists(entries, max_size=3))),
        draw(st.one_of(st.none(), st.binary(max_size=9), st.just(b"\xff" * 18_752))),
        draw(st.one_of(st.none(), st.binary(max_size=3))),
        tuple(draw(st.lists(entries, max_size=2))),
    )
    try:
        wire = encode(message, profile)
    except SdsError:
        wire = draw(st.binary(max_size=30))
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(wire)))
        wire = wire[:at] + draw(st.binary(max_size=3)) + wire[at + draw(st.integers(0, 3)) :]
    return wire


def assert_sound(shard: Shard) -> None:
    """Every record that was written is one that its readers take."""
    decoders = {
        Topic.EVENTS: SdsEventRecord.decode,
        Topic.MESSAGES: SdsMessageRecord.decode,
        Topic.OUT: SdsOutRecord.decode,
        Topic.FETCH: SdsFetchRecord.decode,
        Topic.REJECTED: RejectedRecord.decode,
    }
    for record in shard.written:
        if record.topic is Topic.ACKS:
            key = split_ack_key(record.key)
            if key.participant_id is None:
                SdsChannelRecord.decode(record.value)
        elif record.topic is Topic.OWNERS:
            split_owner_key(record.key)
            SdsOwnerRecord.decode(record.value)
        else:
            decoders[record.topic](record.value)
            if record.topic is not Topic.REJECTED:
                split_channel_key(record.key)


@settings(max_examples=150)
@given(st.data(), st.sampled_from(PROFILES))
def test_any_message_is_taken_or_refused_and_every_record_is_sound(
    data: st.DataObject, profile: Profile
) -> None:
    shard = Shard()
    if data.draw(st.booleans()):
        shard.ask("c", "join", "alice", profile=profile)
        shard.ask("c", "send", "alice", b"hello", profile=profile)
    for _ in range(data.draw(st.integers(1, 6))):
        from_store = data.draw(st.booleans())
        shard.hear("c", data.draw(wires(profile)), profile=profile, from_store=from_store)
        if data.draw(st.booleans()):
            shard.batch()
            shard.now_ms += 10_000
    shard.batch()
    shard.wait(3 * 3_600_000, step_ms=900_000)
    assert_sound(shard)


def test_a_message_that_refers_to_one_without_an_id_stops_nothing() -> None:
    shard = Shard()
    shard.ask("c", "join", "alice", profile="nim")
    history = (HistoryEntry(""), HistoryEntry("gone"))
    wire = encode(Message("", "m", "c", START_MS // 1_000, history, None, b"hi"), "nim")
    shard.hear("c", wire, profile="nim")
    shard.batch()
    asked = [SdsFetchRecord.decode(value) for value in values(shard.written, Topic.FETCH)]
    assert [[entry.message_id for entry in record.entries] for record in asked] == [["gone"]]
    shard.wait(2 * 3_600_000, step_ms=900_000)
    assert [event.kind for event in shard.events()].count("delivered") == 1
    assert_sound(shard)


@given(st.data())
def test_any_command_is_done_or_refused(data: st.DataObject) -> None:
    shard = Shard()
    shard.ask("c", "join", "alice")
    for number in range(data.draw(st.integers(1, 6))):
        ids = st.sampled_from(("alice", "bea", "p" * 1_024, "😀", "\x00"))
        record = SdsCommandRecord(
            data.draw(st.sampled_from(COMMANDS)),
            data.draw(st.sampled_from(PROFILES)),
            data.draw(ids),
            token(number),
            data.draw(st.sampled_from((None, b"", b"hi", b"x" * 2_000_000))),
            data.draw(st.one_of(st.none(), ids)),
            data.draw(
                st.dictionaries(
                    st.sampled_from(
                        ("lost_timeout_ms", "bloom_capacity", "sync_messages", "repair_t_min_ms", "x")
                    ),
                    st.sampled_from((0, 1, 10**6, 10**12, True, False, None, "1", b"1", 0.5, ("a",))),
                    max_size=2,
                )
            ),
            data.draw(st.sampled_from((None, bytes(32), b"k" * 32))),
        )
        shard.put(Source.COMMANDS, b"c", record.encode())
        if data.draw(st.booleans()):
            shard.batch()
    shard.batch()
    shard.wait(600_000, step_ms=60_000)
    assert_sound(shard)


@given(st.binary(max_size=40), st.one_of(st.none(), st.binary(max_size=40)), st.sampled_from(Source))
def test_any_record_is_taken_or_refused(key: bytes, value: bytes | None, source: Source) -> None:
    shard = Shard()
    shard.put(source, key, value)
    shard.hear("c", content(peer("bob"), b"hi", shard.now_ms))
    records = shard.batch()
    assert_sound(shard)
    assert [record.topic for record in records].count(Topic.MESSAGES) == 1
    assert [record.topic for record in records].count(Topic.REJECTED) == 1
