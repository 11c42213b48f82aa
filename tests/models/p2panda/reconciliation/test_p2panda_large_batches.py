"""Batches that are on their way piece by piece: an answer begins before its batch has ended (rbsr.md 1.4)."""

from __future__ import annotations

from functools import cache

import pytest

from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.reconciliation import reconciling
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.wire import codec
from tests.support.logs import SCHEMA, author, make_log
from tests.support.p2panda_peers import HIGH, LOW, NOW, connect, heights, kinds, make_peer


@cache
def log(number: int) -> list[CheckedOperation]:
    return make_log(author(f"large batches {number}"), 0, 1)


def say_one(sender: Peer, receiver: Peer) -> bool:
    """Carry the first thing that waits, as a driver whose transport takes little at a time."""
    outgoing = sender.outgoing(receiver.peer_id)
    if not outgoing:
        return False
    item = outgoing.popleft()
    if isinstance(item, EntryRange):
        pairs = sender.store.entries(item.public_key, item.log_id, item.first_seq_num, item.last_seq_num)
        data = b"".join(codec.encode_entry_message(item.session_id, *pair) for pair in pairs)
    else:
        data = item.data
    receiver.receive(sender.peer_id, data, NOW)
    return True


@pytest.mark.parametrize("steps", [(1, 1), (1, 5), (7, 1)])
def test_an_answer_may_begin_while_the_batch_is_still_on_its_way(
    monkeypatch: pytest.MonkeyPatch, steps: tuple[int, int]
) -> None:
    monkeypatch.setattr(reconciling, "_AT_ONCE", 8)
    monkeypatch.setattr(reconciling, "_MESSAGES_AN_ITEM", 2)
    low, high = (
        make_peer(peer, [log(number) for number in numbers], payload_threshold=1, range_division=2)
        for peer, numbers in ((LOW, range(120)), (HIGH, range(60, 180)))
    )
    connect(low, high)
    low.sync(HIGH, 1, [SCHEMA], NOW)
    moved = 1
    while moved:
        moved = sum(say_one(low, high) for _ in range(steps[0]))
        moved += sum(say_one(high, low) for _ in range(steps[1]))
    assert heights(low) == heights(high)
    assert len(heights(low)) == 180
    for peer in (low, high):
        told = kinds(peer.take_events())
        assert "session_failed" not in told and told.count("live") == 1
