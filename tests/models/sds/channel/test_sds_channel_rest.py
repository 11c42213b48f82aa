"""A channel comes to rest: whatever was received, it does not go on speaking for nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from culm_models.sds.events import Outbound
from culm_models.sds.wire.codec import decode
from tests.models.sds.channels_for_tests import NOW, Peer

MINUTE_MS = 60_000


def spoken(peer: Peer, until_ms: int, *, steps: int = 300) -> Iterator[tuple[int, Outbound]]:
    """What a peer that is left alone says until a time, and when."""
    now_ms = NOW
    for _ in range(steps):
        due_ms = peer.channel.next_due_ms()
        if due_ms is None or due_ms > until_ms:
            return
        now_ms = max(now_ms, due_ms)
        for outbound in peer.tick(now_ms).send:
            yield now_ms, outbound
    pytest.fail("it has always something to do")


@pytest.mark.parametrize("changed", [{"repair_requests": False}, {"repair_max_requests": 0}])
def test_who_asks_nobody_for_missing_messages_does_not_wake_for_it(changed: dict[str, Any]) -> None:
    sender, receiver = Peer("sender"), Peer("receiver", **changed)
    receiver.receive(sender.send(b"first"))
    sender.send(b"second")
    receiver.receive(sender.send(b"third"))
    kinds = [outbound.kind for _, outbound in spoken(receiver, NOW + 50 * MINUTE_MS)]
    assert kinds == ["sync"] * 3


def test_a_repeated_message_that_waits_is_not_answered_for_ever() -> None:
    sender, receiver = Peer("sender"), Peer("receiver")
    receiver.receive(sender.send(b"first"))
    sender.send(b"second")
    third = sender.send(b"third")
    receiver.receive(third)
    receiver.receive(third, NOW + 30_000)
    late = [one for time_ms, one in spoken(receiver, NOW + 50 * MINUTE_MS) if time_ms > NOW + 20 * MINUTE_MS]
    # Only for what is missing it goes on asking.
    assert all(decode(one.wire, "spec").repair_request for one in late)


def test_a_copy_that_comes_at_once_is_not_taken_for_a_re_send() -> None:
    sender, receiver = Peer("sender"), Peer("receiver")
    wire = sender.send()
    receiver.receive(wire)
    due_ms = receiver.channel.next_due_ms()
    receiver.receive(wire, NOW + 50)
    assert receiver.channel.next_due_ms() == due_ms


def test_a_re_send_is_answered_early_by_a_sync_that_names_it() -> None:
    sender, receiver = Peer("sender"), Peer("receiver", causal_history_size=1)
    wires = [sender.send(content) for content in (b"first", b"second", b"third")]
    for wire in wires:
        receiver.receive(wire)
    said = [time_ms for time_ms, outbound in spoken(receiver, NOW + 20 * MINUTE_MS)]
    assert len(said) == 3
    again_ms = said[-1] + 10 * MINUTE_MS
    receiver.receive(wires[0], again_ms)
    due_ms = receiver.channel.next_due_ms()
    assert due_ms is not None
    assert due_ms < again_ms + 7_500
    (sync,) = receiver.tick(due_ms).send
    named = [entry.message_id for entry in decode(sync.wire, "spec").causal_history]
    assert named == [decode(wires[0], "spec").message_id, decode(wires[2], "spec").message_id]
    assert sender.receive(sync.wire, due_ms).events


def test_the_answer_of_another_to_a_repair_request_is_no_re_send() -> None:
    sender, asking, receiver = Peer("sender"), Peer("asking"), Peer("receiver")
    first = sender.send(b"first")
    asking.receive(sender.send(b"second"))
    receiver.receive(first)
    asked_ms = NOW + 10 * MINUTE_MS
    (request,) = [one for _, one in spoken(asking, NOW + 3 * MINUTE_MS) if one.kind == "sync"][:1]
    receiver.receive(request.wire, asked_ms)
    before = receiver.channel._parts.schedule.names()
    receiver.receive(first, asked_ms + 10)
    assert receiver.channel._parts.schedule.names() == before
