"""Delivery: each id once, parents before children, ties by Lamport timestamp and id, gaps told."""

from __future__ import annotations

from itertools import pairwise, permutations
from random import Random

import pytest

from culm_models.sds.events import Delivered, Lost, Missing, Rejected
from culm_models.sds.wire.messages import HistoryEntry
from tests.models.sds.channels_for_tests import NOW, Peer, kinds, made

HOUR_MS = 3_600_000


def delivered_of(peer: Peer) -> list[tuple[str, int | None]]:
    return [(event.message_id, event.position) for event in peer.events if isinstance(event, Delivered)]


def test_a_message_is_delivered_when_its_history_is_there() -> None:
    bob = Peer("bob")
    assert kinds(bob.receive(made("m1"))) == ["received", "delivered"]
    assert kinds(bob.receive(made("m2", "m1", lamport=NOW + 1))) == ["received", "delivered"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_parents_come_before_children_whatever_order_they_arrive_in(order: tuple[int, ...]) -> None:
    wires = [made("m1"), made("m2", "m1", lamport=NOW + 1), made("m3", "m2", lamport=NOW + 2)]
    bob = Peer("bob")
    for number in order:
        bob.receive(wires[number])
    assert bob.delivered == ["m1", "m2", "m3"]


def test_a_message_that_waits_satisfies_nobody() -> None:
    bob = Peer("bob", causal_history_size=1)
    bob.receive(made("m3", "m2", lamport=NOW + 2))
    bob.receive(made("m2", "m1", lamport=NOW + 1))
    assert bob.delivered == []
    assert [(message.message_id, message.missing) for message in bob.channel.status().incoming] == [
        ("m3", ("m2",)),
        ("m2", ("m1",)),
    ]


def test_of_messages_that_are_freed_together_the_lower_timestamp_then_id_goes_first() -> None:
    bob = Peer("bob")
    for message_id, lamport in (("d", 3), ("b", 2), ("a", 3), ("c", 1)):
        bob.receive(made(message_id, "m", lamport=NOW + lamport))
    bob.receive(made("m"))
    assert bob.delivered == ["m", "c", "b", "a", "d"]


def test_the_log_is_in_numeric_order_and_ties_in_that_of_utf_8_bytes() -> None:
    bob = Peer("bob")
    keys = [(999_999_999, "z"), (10**12, "é"), (10**12, "a"), (10**12, "B"), (10**12, "\U0001f600"), (9, "q")]
    keys.append((10**12, "\uffff"))
    for lamport, message_id in keys:
        bob.receive(made(message_id, lamport=lamport))
    assert list(bob.log) == sorted(keys, key=lambda key: (key[0], key[1].encode()))


def test_positions_are_those_of_the_log_at_that_moment() -> None:
    bob = Peer("bob")
    for message_id, lamport in (("b", 2), ("d", 4), ("a", 1), ("c", 3)):
        bob.receive(made(message_id, lamport=NOW + lamport))
    assert delivered_of(bob) == [("b", 0), ("d", 1), ("a", 0), ("c", 2)]


def test_positions_count_messages_that_have_left_the_log() -> None:
    bob = Peer("bob", max_log_entries=3)
    for number in range(10):
        bob.receive(made(f"m{number}", lamport=NOW + number))
    assert bob.log_ids == ["m7", "m8", "m9"]
    assert bob.channel.status().log_start == 7
    assert delivered_of(bob)[-1] == ("m9", 9)


@pytest.mark.parametrize("where", ["in the log", "waiting", "no longer in the log", "lost and come"])
def test_a_copy_of_a_known_message_is_not_delivered_again(where: str) -> None:
    bob = Peer("bob", max_log_entries=2)
    wire = made("m1") if where != "waiting" else made("m1", "m0")
    if where == "lost and come":
        bob.receive(made("m2", "m1", lamport=NOW + 1))
        bob.tick(NOW + HOUR_MS)
    bob.receive(wire)
    if where == "no longer in the log":
        for number in range(3):
            bob.receive(made(f"n{number}", lamport=NOW + number))
    before = bob.channel.status()
    assert kinds(bob.receive(wire)) == []
    assert bob.channel.status().log == before.log
    assert bob.delivered.count("m1") == (0 if where == "waiting" else 1)


def test_history_that_has_left_the_log_is_met() -> None:
    bob = Peer("bob", max_log_entries=2)
    for number in range(4):
        bob.receive(made(f"m{number}", lamport=NOW + number))
    assert kinds(bob.receive(made("m4", "m0", "m1", lamport=NOW + 4))) == ["received", "delivered"]


def test_a_message_that_names_itself_does_not_wait_for_itself() -> None:
    assert kinds(Peer("bob").receive(made("m1", "m1"))) == ["received", "delivered"]


def test_missing_messages_are_told_once_each_with_hint_and_sender_and_fetched() -> None:
    bob = Peer("bob")
    first = HistoryEntry("m1", b"hint", "alice")
    output = bob.receive(made("m3", "m2", "m2", history=[first]))
    (missing,) = [event for event in output.events if isinstance(event, Missing)]
    assert missing.message_id == "m3"
    assert missing.entries == (HistoryEntry("m2"), first)
    assert [(fetch.entries, fetch.attempt) for fetch in output.fetch] == [((HistoryEntry("m2"), first), 1)]


def test_what_is_missing_is_fetched_again_ever_later() -> None:
    bob = Peer("bob", fetch_retry_ms=1_000, fetch_max_ms=4_000, repair_requests=False)
    bob.receive(made("m2", "m1"))
    times, attempts = [], []
    for _ in range(5):
        due_ms = bob.channel.next_due_ms()
        assert due_ms is not None
        times.append(due_ms - NOW)
        attempts += [fetch.attempt for fetch in bob.tick(due_ms, "incoming").fetch]
    assert attempts == [2, 3, 4, 5, 6]
    assert times[0] == 1_000
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert all(wait <= 4_000 for wait in waits)
    assert waits[-1] > waits[0]


def test_after_the_lost_timeout_what_waits_is_delivered_with_its_gap() -> None:
    bob = Peer("bob", lost_timeout_ms=60_000)
    bob.receive(made("m2", "m1", lamport=NOW + 1))
    bob.receive(made("m3", "m2", lamport=NOW + 2))
    assert bob.tick(NOW + 59_999, "incoming").events == () or bob.delivered == []
    output = bob.tick(NOW + 60_000, "incoming")
    lost = [event for event in output.events if isinstance(event, Lost)]
    assert [(event.message_id, event.waiting) for event in lost] == [("m1", ("m2",))]
    gaps = [(event.message_id, event.gap) for event in output.events if isinstance(event, Delivered)]
    assert gaps == [("m2", ("m1",)), ("m3", ())]
    assert bob.channel.status().lost == ("m1",)


def test_a_lost_message_that_comes_after_all_is_delivered_at_its_own_place() -> None:
    bob = Peer("bob", lost_timeout_ms=60_000)
    bob.receive(made("m2", "m1", lamport=NOW + 1))
    bob.tick(NOW + 60_000)
    output = bob.receive(made("m1"), NOW + 70_000)
    assert kinds(output) == ["received", "delivered"]
    assert delivered_of(bob) == [("m2", 0), ("m1", 0)]
    assert bob.log_ids == ["m1", "m2"]
    assert bob.channel.status().lost == ()


def test_what_names_a_lost_message_is_delivered_at_once_with_the_gap() -> None:
    bob = Peer("bob", lost_timeout_ms=60_000)
    bob.receive(made("m2", "m1"))
    bob.tick(NOW + 60_000)
    output = bob.receive(made("m3", "m1", "m2", lamport=NOW + 3), NOW + 60_001)
    assert [event.gap for event in output.events if isinstance(event, Delivered)] == [("m1",)]


def test_without_a_lost_timeout_nothing_is_ever_given_up() -> None:
    bob = Peer("bob", lost_timeout_ms=None)
    bob.receive(made("m2", "m1"))
    bob.tick(NOW + 1_000 * HOUR_MS)
    assert bob.delivered == []
    assert bob.channel.status().missing[0].lost_at_ms is None


def test_messages_that_wait_for_each_other_are_delivered_after_the_lost_timeout() -> None:
    bob = Peer("bob", lost_timeout_ms=60_000)
    bob.receive(made("a", "b", lamport=NOW + 1))
    bob.receive(made("b", "c", lamport=NOW + 2))
    bob.receive(made("c", "a", lamport=NOW + 3))
    bob.receive(made("d", "c", lamport=NOW + 4))
    assert bob.delivered == []
    assert bob.channel.next_due_ms() is not None
    bob.tick(NOW + 60_000, "incoming")
    assert bob.delivered == ["a", "c", "b", "d"] or sorted(bob.delivered) == ["a", "b", "c", "d"]
    assert bob.log_ids == ["a", "b", "c", "d"]


def test_only_descendants_of_a_missing_message_wait() -> None:
    bob = Peer("bob")
    bob.receive(made("m2", "m1", sender="alice"))
    assert kinds(bob.receive(made("n1", sender="carol"))) == ["received", "delivered"]


def test_when_too_much_waits_the_latest_go_and_are_known_no_more() -> None:
    bob = Peer("bob", max_waiting=16)
    for number in range(20):
        bob.receive(made(f"m{number:02}", f"m{number - 1:02}", "m-1", lamport=NOW + number))
    status = bob.channel.status()
    assert len(status.incoming) <= 16
    kept = {message.message_id for message in status.incoming}
    assert {f"m{number:02}" for number in range(14)} <= kept
    refused = {event.message_id for event in bob.events if isinstance(event, Rejected)}
    assert {event.code for event in bob.events if isinstance(event, Rejected)} == {"sds.waiting.full"}
    assert refused and not refused & kept
    # Everything comes in the end, whatever was dropped on the way.
    bob.receive(made("m-1", lamport=NOW - 1))
    for _ in range(3):
        for number in range(20):
            bob.receive(made(f"m{number:02}", f"m{number - 1:02}", "m-1", lamport=NOW + number))
    assert bob.log_ids == ["m-1", *(f"m{number:02}" for number in range(20))]
    assert sorted(bob.delivered) == sorted(bob.log_ids)


def test_waiting_messages_are_bounded_in_bytes_and_dependencies() -> None:
    by_bytes = Peer("bob", max_waiting_bytes=10_000)
    by_edges = Peer("bob", max_waiting_dependencies=100)
    for number in range(50):
        by_bytes.receive(made(f"m{number}", "m-1", content=bytes(1_000)))
        by_edges.receive(made(f"m{number}", *(f"p{number}-{each}" for each in range(10))))
    assert 0 < len(by_bytes.channel.status().incoming) <= 10
    assert 0 < len(by_edges.channel.status().incoming) <= 10


def test_a_thousand_messages_in_any_order_give_the_same_log() -> None:
    alice = Peer("alice")
    wires = [alice.send(b"%d" % number, NOW + number) for number in range(300)]
    for seed in range(3):
        shuffled = Random(seed).sample(wires, len(wires))
        bob = Peer("bob")
        for wire in shuffled:
            bob.receive(wire)
        assert bob.log == alice.log
        assert bob.delivered == alice.log_ids


def test_a_message_of_ours_that_others_knew_before_frees_what_waits_for_it() -> None:
    alice = Peer("alice")
    alice.receive(made("m2", "m1", lamport=NOW + 1))
    output = alice.channel.send("alice", b"again", NOW, message_id="m1")
    assert kinds(output) == ["sent", "delivered"]
    assert alice.channel.status().missing == ()


def test_the_head_of_a_store_makes_its_unknown_messages_missing() -> None:
    bob = Peer("bob")
    bob.receive(made("m1"))
    output = bob.channel.compare_head([(NOW, "m1"), (NOW + 1, "m2")], NOW)
    assert kinds(output) == ["missing"]
    assert [fetch.entries for fetch in output.fetch] == [(HistoryEntry("m2"),)]
    assert bob.channel.compare_head([(NOW, "m1"), (NOW + 1, "m2")], NOW).events == ()
    bob.receive(made("m2", "m1", lamport=NOW + 1), source="store")
    assert bob.log_ids == ["m1", "m2"]
    assert bob.channel.status().missing == ()


def test_a_head_that_is_never_found_is_lost_without_anyone_waiting() -> None:
    bob = Peer("bob", lost_timeout_ms=60_000)
    bob.channel.compare_head([(NOW, "m1")], NOW)
    output = bob.tick(NOW + 60_000, "incoming")
    assert [event for event in output.events if isinstance(event, Lost)] == [Lost("m1", None, ())]


def test_a_sync_delivers_nothing_and_makes_its_history_wanted() -> None:
    bob = Peer("bob")
    output = bob.receive(made("sync-1", "m1", content=None))
    assert kinds(output) == ["sync_received", "missing"]
    assert [fetch.attempt for fetch in output.fetch] == [1]
    status = bob.channel.status()
    assert (status.log, status.incoming) == ((), ())
    assert [wanted.entry.message_id for wanted in status.missing] == ["m1"]
    assert kinds(bob.receive(made("sync-2", "m1", content=None))) == ["sync_received"]


def test_a_sync_does_not_move_the_clock() -> None:
    bob = Peer("bob")
    before = bob.channel.status()
    bob.receive(made("sync-1", content=None, lamport=NOW + 60_000))
    after = bob.channel.status()
    assert after.lamport_timestamp == before.lamport_timestamp
    assert after.bloom_filter == before.bloom_filter


def test_ephemeral_messages_are_delivered_at_once_and_stored_nowhere() -> None:
    bob = Peer("bob")
    bob.receive(made("m2", "m1"))
    before = bob.channel.status()
    alice = Peer("alice")
    wire = alice.send(b"typing", ephemeral=True)
    output = bob.receive(wire)
    assert kinds(output) == ["received", "delivered"]
    event = output.events[1]
    assert isinstance(event, Delivered)
    assert (event.content, event.position, event.ephemeral) == (b"typing", None, True)
    assert bob.channel.status() == before
