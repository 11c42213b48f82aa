"""Rows of `sds.acks`: they follow a message to its end, and go when nobody needs them."""

from __future__ import annotations

from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_topics.sds.keys import AckKey, split_ack_key
from culm_topics.sds.records import SdsAckRecord, SdsChannelRecord, SdsParticipantRecord
from tests.support.sds_shards import (
    SMALL,
    content,
    hosting,
    kinds,
    outs,
    peer,
    stored,
)

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
    assert [(one.kind, one.wire) for one in outs(records)] == [("retry", out.wire)]
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
    assert [one.wire for one in retries] == [out.wire] * 2
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
