"""One shard of SDS channels: commands, refusals, the store, timers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.codec import decode
from culm_streaming.errors import StateLayoutError
from culm_streaming.sds import step as steps
from culm_streaming.sds.output_records import Topic
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import StateKind
from culm_streaming.sds.step import Row, SdsOutput, Source, step, step_in_pieces
from tests.support.sds.shards import (
    SMALL,
    Shard,
    content,
    events,
    fetches,
    hosting,
    kinds,
    outs,
    peer,
    refusals,
    stored,
    token,
    values,
)

H = 3_600_000


def test_a_command_is_answered_by_an_event_with_its_token() -> None:
    shard = Shard()
    number = shard.ask("c", "join", "alice")
    (event,) = events(shard.batch())
    assert (event.kind, event.participant_id, event.details["token"]) == ("joined", "alice", token(number))


def test_what_is_sent_goes_out_into_the_store_and_into_the_events() -> None:
    shard = hosting("alice")
    shard.ask("c", "send", "alice", b"hello")
    records = shard.batch()
    (out,), (message,), (event,) = outs(records), stored(records), events(records)
    assert (out.kind, event.kind, event.content) == ("new", "sent", b"hello")
    assert out.wire == message.wire
    assert out.message_id == message.message_id == event.message_id
    assert message.sender_id == "alice"


def test_equal_contents_are_different_messages() -> None:
    shard = hosting("alice")
    shard.ask("c", "send", "alice", b"ok")
    shard.ask("c", "send", "alice", b"ok")
    assert len({message.message_id for message in stored(shard.batch())}) == 2


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("kind", ["join", "send", "ephemeral", "leave"])
def test_a_command_that_comes_twice_is_done_once(kind: str, batches: int) -> None:
    shard = hosting("alice")
    shard.ask("c", kind, "alice", b"hello")  # type: ignore[arg-type]
    before = shard.batch() if batches == 2 else []
    shard.ask("c", kind, "alice", b"hello", again=shard.tokens)  # type: ignore[arg-type]
    records = before + shard.batch()
    assert len(events(records)) == 1
    assert len(outs(records)) == (kind in ("send", "ephemeral"))
    assert not refusals(records)


def test_a_message_is_sent_once_even_when_its_token_is_forgotten() -> None:
    shard = hosting("alice")
    number = shard.ask("c", "send", "alice", b"hello")
    for _ in range(SMALL.tokens):
        shard.ask("c", "join", "alice")
    shard.ask("c", "send", "alice", b"hello", again=number)
    records = shard.batch()
    assert len(stored(records)) == 1
    assert not refusals(records)


def test_a_command_that_is_refused_is_told_to_its_asker_and_on_rejected() -> None:
    shard = hosting("alice")
    shard.ask("c", "send", "zoe", b"hello")
    number = shard.ask("c", "send", "alice")
    records = shard.batch()
    assert [refused.code for refused in refusals(records)] == ["sds.participant", "sds.command"]
    assert [event.details["code"] for event in events(records)] == ["sds.participant", "sds.command"]
    assert events(records)[1].details["token"] == token(number)


@pytest.mark.parametrize("kind", ["send", "leave", "resend", "ephemeral"])
def test_only_a_join_begins_a_channel(kind: str) -> None:
    shard = Shard()
    shard.ask("c", kind, "alice", b"hello")  # type: ignore[arg-type]
    (refused,) = refusals(shard.batch())
    assert refused.code == "sds.channel.unknown"
    assert [kind for kind, _ in shard.state.values] == [StateKind.SHARD]


def test_the_first_join_decides_the_settings() -> None:
    shard = hosting("alice", settings={"causal_history_size": 2})
    shard.ask("c", "join", "bea", settings={"causal_history_size": 50})
    bob = peer("bob")
    for number in range(4):
        shard.hear("c", content(bob, b"%d" % number, shard.now_ms + number))
    shard.batch()
    shard.ask("c", "send", "alice", b"hello")
    (out,) = outs(shard.batch())
    (missing,) = [
        event for event in peer("carol").receive(out.wire, shard.now_ms).events if event.kind == "missing"
    ]
    assert len(missing.entries) == 2  # type: ignore[attr-defined]


def test_a_channel_that_was_only_followed_takes_the_settings_of_its_first_join() -> None:
    shard, bob = Shard(), peer("bob")
    for number in range(4):
        shard.hear("c", content(bob, b"%d" % number, shard.now_ms + number))
    shard.batch()
    shard.ask("c", "join", "alice", settings={"causal_history_size": 3, "bloom_capacity": 100})
    shard.ask("c", "send", "alice", b"hello")
    (out,) = outs(shard.batch())
    carol = peer("carol", settings=SdsSettings(bloom_capacity=100))
    (missing,) = [event for event in carol.receive(out.wire, shard.now_ms).events if event.kind == "missing"]
    assert len(missing.entries) == 3  # type: ignore[attr-defined]
    assert len(out.wire) < 1_000


@pytest.mark.parametrize(
    "settings",
    [
        {"no_such_setting": 1},
        {"max_log_entries": 5},
        {"causal_history_size": "many"},
        {"causal_history_size": True},
        {"resend_attempts": 0},
        {"resend_unacknowledged_ms": 1},
        {"bloom_error_rate": 2.0},
        {"sync_messages": 1},
        {"causal_history_size": 1.0},
    ],
)
def test_unfit_settings_are_refused(settings: dict[str, bool | int | float | str]) -> None:
    shard = Shard()
    shard.ask("c", "join", "alice", settings=settings)
    records = shard.batch()
    assert [refused.code for refused in refusals(records)] == ["sds.settings"]
    assert [event.details["code"] for event in events(records)] == ["sds.settings"]


def test_a_channel_without_hosted_participants_keeps_and_tells_messages_and_sends_nothing() -> None:
    shard, bob = Shard(), peer("bob")
    shard.hear("c", content(bob, b"one", shard.now_ms))
    records = shard.batch() + shard.wait(2 * H, step_ms=60_000)
    assert kinds(records) == ["received", "delivered"]
    assert len(stored(records)) == 1
    assert not outs(records)


def test_a_message_is_stored_once_and_at_once_also_when_it_waits() -> None:
    shard, bob = Shard(), peer("bob")
    first, second = content(bob, b"one", shard.now_ms), content(bob, b"two", shard.now_ms)
    shard.hear("c", second)
    records = shard.batch()
    assert kinds(records) == ["received", "missing"]
    assert [message.wire for message in stored(records)] == [second]
    assert len(fetches(records)) == 1
    for wire in (second, first, first, second):
        shard.hear("c", wire)
    records = shard.batch()
    assert [event.content for event in events(records) if event.kind == "delivered"] == [b"one", b"two"]
    assert [message.wire for message in stored(records)] == [first]


def test_what_peers_send_amiss_is_refused_with_its_place_and_fills_no_events() -> None:
    shard = hosting("alice")
    shard.hear("c", b"junk")
    shard.hear("c", content(peer("bob", "elsewhere"), b"hi", shard.now_ms))
    shard.hear("c", content(peer("bob", profile="nim"), b"hi", shard.now_ms), profile="nim")
    shard.put(Source.IN, b"c", b"no record")
    shard.put(Source.COMMANDS, b"c", None)
    shard.put(Source.IN, None, None)
    records = shard.batch()
    by_place = {refused.source: refused.code for refused in refusals(records)}
    assert by_place == {
        ("sds.in", 0, 0): "sds.message.truncated",
        ("sds.in", 0, 1): "sds.channel",
        ("sds.in", 0, 2): "sds.profile",
        ("sds.in", 0, 3): "topics.record",
        ("sds.commands", 0, 1): "topics.record",
        ("sds.in", 0, 4): "topics.record",
    }
    assert not events(records)


def test_bytes_that_are_no_message_begin_no_channel() -> None:
    shard = Shard()
    shard.hear("c", b"junk")
    assert len(refusals(shard.batch())) == 1
    assert [kind for kind, _ in shard.state.values] == [StateKind.SHARD]


def test_a_message_in_quarantine_is_stored_with_its_bytes_when_it_is_taken() -> None:
    shard = Shard()
    fast = peer("bob")
    wire = content(fast, b"from the future", shard.now_ms + 2 * H)
    shard.hear("c", wire)
    shard.hear("c", wire)
    records = shard.batch()
    assert {refused.code for refused in refusals(records)} == {"sds.lamport.ahead"}
    assert not stored(records)
    records = shard.wait(2 * H, step_ms=60_000)
    assert [message.wire for message in stored(records)] == [wire]
    assert kinds(records) == ["received", "delivered"]
    assert not any(kind is StateKind.HELD for kind, _ in shard.state.values)


def test_a_person_may_have_a_message_sent_again_at_once() -> None:
    shard = hosting("alice", "bea", settings={"sync_messages": False})
    shard.ask("c", "send", "alice", b"hello")
    (first,) = outs(shard.batch())
    for message_id in (None, first.message_id):
        shard.ask("c", "resend", "alice", message_id=message_id)
        (again,) = outs(shard.batch())
        assert (again.kind, again.wire) == ("retry", first.wire)
    shard.ask("c", "resend", "bea", message_id=first.message_id)
    assert not outs(shard.batch()), "another's message is not its to send again"


def test_after_a_long_stop_what_was_due_often_is_done_once() -> None:
    shard = hosting("alice", settings={"sync_messages": False})
    shard.ask("c", "send", "alice", b"hello")
    shard.batch()
    shard.now_ms += 2 * H
    assert [out.kind for out in outs(shard.batch())] == ["retry"]
    assert not outs(shard.wait(10_000))


def test_after_a_long_stop_what_is_missing_is_fetched_before_it_is_lost() -> None:
    shard, bob = hosting("alice"), peer("bob")
    content(bob, b"missed", shard.now_ms)
    shard.hear("c", content(bob, b"heard", shard.now_ms))
    (first,) = fetches(shard.batch())
    shard.now_ms += 2 * H
    records = shard.batch()
    assert [fetch.entries for fetch in fetches(records)] == [first.entries]
    assert "lost" not in kinds(records)
    records = shard.wait(60_000)
    assert "lost" in kinds(records)
    assert [event.content for event in shard.events() if event.kind == "delivered"] == [b"heard"]


def test_a_shard_that_lags_resends_nothing_before_it_has_read_the_answers() -> None:
    shard, bob = hosting("alice", settings={"sync_messages": False}), peer("bob")
    shard.ask("c", "send", "alice", b"hello")
    (out,) = outs(shard.batch())
    bob.receive(out.wire, shard.now_ms)
    shard.now_ms += 1_000
    shard.hear("c", content(peer("zoe"), b"something else", shard.now_ms))
    earlier, shard.now_ms = shard.now_ms, shard.now_ms + H
    assert not outs(shard.batch()), "an hour behind"
    shard.now_ms = earlier
    shard.hear("c", content(bob, b"heard", shard.now_ms))
    shard.now_ms += H + 1_000
    assert "acknowledged" in kinds(shard.batch())
    assert not outs(shard.wait(120_000))


def test_a_checkpoint_of_another_layout_is_refused() -> None:
    shard = hosting("alice")
    with pytest.raises(StateLayoutError, match="take another checkpoint"):
        step(shard.state, [], shard.now_ms, ChannelsSettings(shards=2), shard.cache)


def test_an_idle_channel_has_no_timer() -> None:
    shard, bob = hosting("alice", settings={"sync_messages": False}), peer("bob")
    shard.hear("c", content(bob, b"hi", shard.now_ms))
    shard.batch()
    assert shard.timer_ms is None
    assert not any(kind is StateKind.WAKES for kind, _ in shard.state.values)


def test_events_are_numbered_without_holes_by_channel() -> None:
    shard = Shard()
    for channel_id in ("a", "b"):
        shard.ask(channel_id, "join", "alice")
        shard.ask(channel_id, "send", "alice", b"hi")
    shard.batch()
    shard.wait(H)
    for channel_id in ("a", "b"):
        channel_events = shard.events(channel_id)
        assert [event.number for event in channel_events] == list(range(1, len(channel_events) + 1))
        times = [event.time_ms for event in channel_events]
        assert times == sorted(times)


def test_values_of_every_record_are_within_what_readers_take() -> None:
    shard = hosting("alice")
    long_id = "m" * 1_024
    shard.ask("c", "send", "alice", b"x", message_id=long_id)
    shard.ask("c", "send", "alice", b"x", message_id=long_id)
    records = shard.batch()
    assert [message.message_id for message in stored(records)] == [long_id]
    assert [refused.code for refused in refusals(records)] == ["sds.message_id.known"]
    assert values(records, Topic.EVENTS)


def test_records_come_in_bounded_pieces_while_the_step_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_PIECE_BYTES", 2_000)
    monkeypatch.setattr(steps, "_PIECE_RECORDS", 8)
    whole, apart = Shard(), Shard()
    for shard in (whole, apart):
        bob = peer("bob")
        shard.ask("c", "join", "alice")
        for number in range(40):
            shard.hear("c", content(bob, b"%d" % number, shard.now_ms))
    expected = whole.batch()
    output, taken = SdsOutput(), list[Row]()

    def rows() -> Iterator[Row]:
        for row in sorted(apart.rows):
            taken.append(row)
            yield row

    pieces, taken_at = [], []
    for piece in step_in_pieces(apart.state, rows(), apart.now_ms, apart.settings, apart.cache, output):
        pieces.append(piece)
        taken_at.append(len(taken))
    assert [record for piece in pieces for record in piece] == expected
    assert taken_at[0] < len(apart.rows)
    for piece in pieces:
        assert len(piece) <= 8
        assert sum(len(record.value or b"") for record in piece[:-1]) <= 2_000
    assert output.timer_ms == whole.timer_ms
    assert apart.state.values == whole.state.values


def test_content_of_a_peer_is_answered_for_those_hosted_within_two_seconds() -> None:
    shard, bob = hosting("alice"), peer("bob")
    shard.hear("c", content(bob, b"hello", shard.now_ms))
    assert not outs(shard.batch())
    shard.now_ms += 1_000
    early = outs(shard.batch())
    shard.now_ms += 1_000
    (answer,) = early + outs(shard.batch())
    assert answer.kind == "sync"
    assert [event.kind for event in bob.receive(answer.wire, shard.now_ms).events][-1] == "acknowledged"
    shard.now_ms += 10_000
    assert not outs(shard.batch()), "one answer is enough"


def test_content_that_another_peer_has_answered_is_not_answered_for_those_hosted() -> None:
    shard, bob, carol = hosting("alice"), peer("bob"), peer("carol")
    wire = content(bob, b"hello", shard.now_ms)
    carol.receive(wire, shard.now_ms)
    shard.hear("c", wire)
    shard.hear("c", content(carol, b"so I hear", shard.now_ms + 1))
    shard.batch()
    shard.hear("c", content(bob, b"good", shard.now_ms + 2))
    shard.now_ms += 100
    records = shard.batch()
    shard.now_ms += 2_000
    records += shard.batch()
    # Only the last of the three is left to be answered.
    (answer,) = outs(records)
    assert answer.kind == "sync"


def test_a_broker_whose_clock_is_a_day_ahead_for_a_moment_stops_no_timer() -> None:
    shard, bob = hosting("alice"), peer("bob")
    wire = content(bob, b"hi", shard.now_ms)
    shard.now_ms += 24 * H
    shard.hear("c", wire)
    shard.now_ms -= 24 * H
    shard.batch()
    shard.ask("c", "send", "alice", b"hello")
    (sent,) = outs(shard.batch())
    assert (decode(sent.wire, "spec").lamport_timestamp or 0) < shard.now_ms + 2 * 60_000
    assert "retry" in [out.kind for out in outs(shard.wait(10 * 60_000, step_ms=10_000))]
