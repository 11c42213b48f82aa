"""Ephemeral messages and the job: it passes them on where it is told to, and keeps nothing of them."""

from __future__ import annotations

from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message
from tests.support.sds.shards import Shard, events, outs, stored, token

WORDS = b"nobody keeps this"


def hosting(*participants: str) -> Shard:
    shard = Shard()
    for participant_id in participants:
        shard.ask("c", "join", participant_id)
    shard.batch()
    return shard


def test_one_that_a_peer_sends_is_kept_nowhere() -> None:
    shard = hosting("alice", "bea")
    shard.hear("c", encode(Message("bob", "m1", "c", content=WORDS), "spec"))
    records = shard.batch()
    assert not events(records) and not stored(records) and not outs(records)
    assert all(WORDS not in (record.value or b"") for record in records)
    assert all(WORDS not in blob for blob in shard.state.values.values())


def test_in_a_channel_of_nobody_it_leaves_no_trace() -> None:
    shard = Shard()
    shard.hear("c", encode(Message("bob", "m1", "c", content=WORDS), "spec"))
    assert not shard.batch()


def test_one_that_a_command_asks_for_goes_out_and_only_that_is_told() -> None:
    shard = hosting("alice", "bea")
    number = shard.ask("c", "ephemeral", "alice", WORDS)
    records = shard.batch()
    (out,) = outs(records)
    (event,) = events(records)
    assert (out.kind, event.kind, event.details["token"]) == ("ephemeral", "sent", token(number))
    assert event.content == b"" and not stored(records)
    assert all(WORDS not in blob for blob in shard.state.values.values())
