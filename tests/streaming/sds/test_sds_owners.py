"""Hosted ids, sender ids and channels belong to somebody: the first key, as the topic's order has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message
from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.sds.keys import AckKey, split_ack_key
from culm_topics.sds.records import SdsAckRecord, SdsChannelRecord, SdsParticipantRecord
from tests.support.hostile.sds import another_profile_first, forged_messages, take_over
from tests.support.sds.shards import (
    SMALL,
    START_MS,
    Shard,
    content,
    events,
    hosting,
    key_of,
    kinds,
    outs,
    owners,
    peer,
    refusals,
    stored,
)

BEN, STRANGER, BOB = 1, 2, 3


def hosting_ben(**settings: bool) -> Shard:
    shard = Shard()
    shard.ask("c", "join", "ben", key=BEN, settings=dict(settings))
    shard.ask("c", "send", "ben", b"hello", key=BEN)
    shard.batch()
    return shard


def codes(records: list[OutputRecord]) -> list[str]:
    return [refused.code for refused in refusals(records)]


def test_a_hosted_id_belongs_to_the_first_key_that_joined_as_it() -> None:
    shard = hosting_ben()
    row = owners(shard.written)["c", "ben"]
    assert (row.role, row.peer_id, row.profile) == ("hosted", key_of(BEN), "spec")
    for frame in take_over("c", "ben"):
        shard.take(frame, STRANGER, "ben")
    records = shard.batch()
    assert codes(records) == ["sds.participant.owned"] * 3
    assert {refused.brought_by for refused in refusals(records)} == {key_of(STRANGER)}
    assert not outs(records) and not stored(records)
    assert "left" not in [event.kind for event in events(records)]


def test_of_two_keys_with_the_same_id_at_once_the_first_in_the_topic_has_it() -> None:
    shard = Shard()
    shard.ask("c", "join", "ben", key=STRANGER)
    shard.ask("c", "join", "ben", key=BEN)
    records = shard.batch()
    assert owners(records)["c", "ben"].peer_id == key_of(STRANGER)
    assert [(event.kind, event.details.get("code")) for event in events(records)] == [
        ("joined", None),
        ("rejected", "sds.participant.owned"),
    ]


def test_only_a_refused_join_is_answered_by_an_event() -> None:
    """Who asks as somebody else leaves no trace in what that one reads."""
    shard = hosting_ben()
    shard.ask("c", "send", "ben", b"forged", key=STRANGER)
    shard.ask("c", "leave", "ben", key=STRANGER)
    shard.ask("c", "resend", "ben", key=STRANGER)
    records = shard.batch()
    assert codes(records) == ["sds.participant.owned"] * 3
    assert not events(records)


def test_an_id_that_has_left_stays_its_keys_also_over_a_restart() -> None:
    shard = hosting_ben()
    shard.ask("c", "leave", "ben", key=BEN)
    shard.batch()
    again = Shard(state=shard.state.copy(), now_ms=shard.now_ms, tokens=shard.tokens)
    again.ask("c", "join", "ben", key=STRANGER)
    again.ask("c", "join", "ben", key=BEN)
    records = again.batch()
    assert codes(records) == ["sds.participant.owned"]
    assert [event.kind for event in events(records)] == ["rejected", "joined"]


def test_an_operator_gives_a_hosted_id_to_another_key() -> None:
    shard = hosting_ben()
    shard.ask("c", "transfer", "ben", key_of(STRANGER), key=STRANGER)
    assert codes(shard.batch()) == ["sds.command"]
    shard.ask("c", "transfer", "ben", key_of(BOB))
    assert owners(shard.batch())["c", "ben"].peer_id == key_of(BOB)
    shard.ask("c", "send", "ben", b"as before", key=BEN)
    shard.ask("c", "send", "ben", b"from now on", key=BOB)
    records = shard.batch()
    assert codes(records) == ["sds.participant.owned"]
    assert [event.content for event in events(records)] == [b"from now on"]


def test_what_an_operator_hosts_belongs_to_no_key() -> None:
    shard = Shard()
    shard.ask("c", "join", "ben")
    shard.ask("c", "join", "ben", key=STRANGER)
    assert codes(shard.batch()) == ["sds.participant.owned"]


def test_a_participant_id_that_is_a_peer_id_is_that_keys_alone() -> None:
    shard = Shard()
    shard.ask("c", "join", key_of(BEN).hex(), key=STRANGER)
    shard.ask("c", "join", key_of(BEN).hex(), key=BEN)
    records = shard.batch()
    assert codes(records) == ["sds.participant.owned"]
    assert owners(records)["c", key_of(BEN).hex()].peer_id == key_of(BEN)


def test_messages_under_a_hosted_id_are_taken_from_its_host_alone() -> None:
    """Also when somebody has named their ids before, so that they are missed and asked for."""
    shard = hosting_ben()
    for frame in forged_messages("c", "ben", 2, lamport=shard.now_ms):
        shard.take(frame, STRANGER)
    records = shard.batch()
    assert codes(records) == ["sds.sender.own"] * 6
    assert [message.message_id for message in stored(records)] == ["bait"]
    assert not [event for event in events(records) if event.kind == "delivered"]


def test_a_repeat_of_what_a_hosted_participant_sent_is_no_offence() -> None:
    shard = hosting_ben()
    (sent,) = outs(shard.written)
    shard.hear("c", sent.wire, key=BOB)
    assert not refusals(shard.batch())


def test_messages_under_an_id_that_was_hosted_are_taken_from_its_key_alone() -> None:
    shard = hosting_ben()
    shard.ask("c", "leave", "ben", key=BEN)
    ben = peer("ben")
    shard.hear("c", content(ben, b"forged", shard.now_ms), key=STRANGER)
    shard.hear("c", content(peer("ben"), b"mine", shard.now_ms + 1), key=BEN)
    records = shard.batch()
    assert codes(records) == ["sds.sender.owned"]
    assert len(stored(records)) == 1


def test_an_id_that_has_spoken_as_a_full_participant_is_not_hosted_as_well() -> None:
    shard = Shard()
    shard.hear("c", content(peer("ann"), b"hello", shard.now_ms), key=BOB)
    shard.batch()
    shard.ask("c", "join", "ann", key=BOB)
    records = shard.batch()
    assert codes(records) == ["sds.participant.full"]
    assert events(records)[0].details["code"] == "sds.participant.full"
    assert events(records)[0].details["command"] == "join"


def test_sender_ids_are_free_unless_the_channel_binds_them() -> None:
    shard = Shard()
    shard.hear("c", content(peer("ann"), b"one", shard.now_ms), key=BOB)
    shard.hear("c", content(peer("ann"), b"two", shard.now_ms), key=STRANGER)
    assert len(stored(shard.batch())) == 2


def test_a_channel_that_binds_sender_ids_refuses_what_is_new_from_other_keys() -> None:
    shard = hosting_ben(bind_senders=True)
    ann = peer("ann")
    first = content(ann, b"one", shard.now_ms)
    shard.hear("c", first, key=BOB)
    shard.hear("c", first, key=STRANGER)
    shard.hear("c", content(ann, b"two", shard.now_ms), key=STRANGER)
    shard.hear("c", content(ann, b"three", shard.now_ms), key=BOB)
    records = shard.batch()
    assert codes(records) == ["sds.sender.owned"]
    assert [message.sender_id for message in stored(records)] == ["ann", "ann"]
    assert owners(records)["c", "ann"].role == "bound"
    named = peer(key_of(BOB).hex())
    shard.hear("c", content(named, b"as another key", shard.now_ms), key=STRANGER)
    assert codes(shard.batch()) == ["sds.sender.owned"]


def test_one_key_owns_a_bounded_number_of_ids() -> None:
    shard = Shard(settings=replace(SMALL, ids_per_key=4))
    for number in range(6):
        shard.ask("c", "join", f"guest-{number}", key=STRANGER)
        shard.ask("c", "leave", f"guest-{number}", key=STRANGER)
        shard.batch()
    assert set(codes(shard.written)) == {"sds.participant.too_many", "sds.participant.owned"}
    shard.ask("c", "join", "ben", key=BEN)
    assert [event.kind for event in events(shard.batch())] == ["joined"]


def test_who_speaks_first_in_another_profile_shuts_nobody_out_of_a_channel_with_members() -> None:
    shard = Shard()
    shard.ask("c", "open", "ann", key=BEN)
    shard.batch()
    for frame in another_profile_first("c", lamport=START_MS):
        if hasattr(frame, "wire"):
            shard.hear("c", frame.wire, profile="js", key=STRANGER)
        else:
            shard.take(frame, STRANGER)
    shard.hear("c", content(peer("ann"), b"hello", shard.now_ms), key=BEN)
    records = shard.batch()
    assert codes(records) == ["sds.profile"] * 2
    assert [message.sender_id for message in stored(records)] == ["ann"]
    row = owners(shard.written)["c", ""]
    assert (row.role, row.profile, row.peer_id) == ("channel", "spec", key_of(BEN))


def test_an_operator_begins_a_channel_anew_in_another_profile() -> None:
    shard = Shard()
    shard.ask("c", "join", "early-bird", profile="js", key=STRANGER)
    shard.ask("c", "send", "early-bird", b"mine", profile="js", key=STRANGER)
    shard.batch()
    shard.ask("c", "open", "operator", key_of(BEN), profile="spec")
    records = shard.batch()
    assert (owners(records)["c", ""].profile, owners(records)["c", ""].peer_id) == ("spec", key_of(BEN))
    shard.hear("c", content(peer("ann"), b"hello", shard.now_ms), key=BOB)
    records = shard.batch()
    assert not refusals(records)
    again = Shard(state=shard.state.copy(), now_ms=shard.now_ms)
    again.hear("c", content(peer("bea"), b"me too", shard.now_ms), key=BOB)
    assert not refusals(again.batch())
    numbers = [event.number for event in shard.events() + again.events()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_only_the_owner_of_a_channel_decides_its_settings() -> None:
    shard = Shard()
    shard.ask("c", "open", "ann", key=BEN)
    shard.ask("c", "join", "guest", key=STRANGER, settings={"bloom_capacity": 100})
    shard.batch()
    assert cached_capacity(shard) == 18_752
    shard.ask("c", "join", "ben", key=BEN, settings={"bloom_capacity": 100})
    shard.batch()
    assert cached_capacity(shard) < 18_752


def cached_capacity(shard: Shard) -> int:
    (copy,) = shard.cache.copies()
    return copy.channel.filter_bytes


@pytest.mark.parametrize("state", [MemoryState()])
def test_who_owns_what_is_the_same_when_a_batch_runs_again(state: MemoryState) -> None:
    def run(before: MemoryState) -> list[OutputRecord]:
        shard = Shard(state=before.copy())
        shard.ask("c", "join", "ben", key=BEN, settings={"bind_senders": True})
        shard.ask("c", "join", "ben", key=STRANGER)
        shard.hear("c", content(peer("ann"), b"one", shard.now_ms), key=BOB)
        return shard.batch()

    assert run(state) == run(state)


def test_one_id_with_two_contents_is_told_once_in_the_events_and_on_rejected() -> None:
    shard = Shard()
    for text in (b"one", b"two", b"three"):
        message = Message("ann", "m1", "c", shard.now_ms, content=text)
        shard.hear("c", encode(message, "spec"), key=BOB)
        shard.batch()
    assert codes(shard.written) == ["sds.message_id.disputed"]
    rejections = [event for event in shard.events() if event.kind == "rejected"]
    assert [(event.message_id, event.details["code"]) for event in rejections] == [
        ("m1", "sds.message_id.disputed")
    ]
    assert [event.content for event in shard.events() if event.kind == "delivered"] == [b"one"]


# Rows of `sds.acks`: they follow a message to its end, and go when nobody needs them.


H = 3_600_000


def rows_of(records: list[OutputRecord]) -> dict[AckKey, bytes | None]:
    return {split_ack_key(record.key): record.value for record in records if record.topic is Topic.ACKS}


def test_rows_of_acknowledgements_follow_a_message_to_its_end() -> None:
    shard = hosting("alice", settings={"sync_messages": False})
    shard.ask("c", "send", "alice", b"hello")
    records = shard.batch()
    (out,) = outs(records)
    key = AckKey("c", "alice", out.message_id)
    row = rows_of(records)[key]
    assert SdsAckRecord.decode(row) == SdsAckRecord("unacknowledged", (), 0, shard.now_ms + 30_000)
    assert SdsParticipantRecord.decode(rows_of(records)[AckKey("c", "alice")]).unacknowledged == 1

    records = shard.wait(31_000)
    assert [(retry.kind, retry.wire) for retry in outs(records)] == [("retry", out.wire)]
    again = SdsAckRecord.decode(rows_of(records)[key])
    assert (again.state, again.attempts) == ("unacknowledged", 1)

    bob = peer("bob")
    bob.receive(out.wire, shard.now_ms)
    shard.hear("c", content(bob, b"heard", shard.now_ms))
    rows = rows_of(shard.batch())
    assert SdsAckRecord.decode(rows[key]) == SdsAckRecord("acknowledged", ("bob",), 1)
    assert SdsParticipantRecord.decode(rows[AckKey("c", "alice")]).unacknowledged == 0
    summary = SdsChannelRecord.decode(rows[AckKey("c")])
    assert (summary.log, summary.outgoing, summary.participants) == (2, 0, 1)
    assert summary.event_number == shard.events()[-1].number


def test_a_message_that_nobody_acknowledges_is_given_up_in_its_row_too() -> None:
    shard = hosting("alice", settings={"resend_attempts": 2, "sync_messages": False})
    shard.ask("c", "send", "alice", b"hello")
    records = shard.batch() + shard.wait(H)
    (out, *retries) = outs(records)
    assert [retry.wire for retry in retries] == [out.wire] * 2
    assert SdsAckRecord.decode(rows_of(records)[AckKey("c", "alice", out.message_id)]).state == "gave_up"
    assert kinds(records)[-1] == "gave_up"
    assert shard.wait(H) == []


def test_rows_of_old_finished_messages_get_tombstones() -> None:
    shard, bob = hosting("alice", settings={"sync_messages": False}), peer("bob")
    ids = []
    rows: dict[AckKey, bytes | None] = {}
    for _ in range(6):
        for number in range(40):
            shard.ask("c", "send", "alice", b"%d" % number)
        for out in outs(shard.batch()):
            ids.append(out.message_id)
            bob.receive(out.wire, shard.now_ms)
        for _ in range(4):
            shard.hear("c", content(bob, b"heard", shard.now_ms))
            shard.now_ms += 10
        # The filters of others: see that all are acknowledged.
        for name in ("carol", "dave"):
            other = peer(name)
            for message in stored(shard.written):
                other.receive(message.wire, shard.now_ms)
            shard.hear("c", content(other, b"me too", shard.now_ms))
        shard.batch()
    rows = rows_of(shard.written)
    states = [rows[AckKey("c", "alice", message_id)] for message_id in ids]
    alive = [state for state in states if state is not None]
    assert SMALL.finished <= len(alive) <= SMALL.finished + 64 + 40
    assert states[: -len(alive)] == [None] * (len(states) - len(alive))


def test_who_leaves_leaves_no_rows() -> None:
    shard = hosting("alice", "bea")
    for number in range(5):
        shard.ask("c", "send", "alice", b"%d" % number)
    shard.batch()
    shard.ask("c", "leave", "alice")
    shard.batch()
    rows = rows_of(shard.written)
    assert {key for key, row in rows.items() if row is not None} == {AckKey("c"), AckKey("c", "bea")}
    assert not any(b"alice" in name for _, name in shard.state.values)
