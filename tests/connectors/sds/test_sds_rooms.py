"""The small parts of the SDS driver: the newest messages, answers that fit, records on their way."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.sds.backbone import OutgoingRecord
from culm_connectors.sds.budgets import PeerBudget
from culm_connectors.sds.channels.members import ChannelMembers, Newest, Passed
from culm_connectors.sds.history.retrieval import cut
from culm_connectors.sds.link import Staging
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_models.sds.frames import codec as wire
from culm_topics.sds.records import SdsInRecord
from tests.support.process.waiting import while_working
from tests.support.sds.edge import MemoryBackbone, message

HEADS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abcd")), max_size=40)


@given(HEADS, st.integers(1, 8))
def test_the_newest_messages_are_the_last_of_all_in_order(heads: list[tuple[int, str]], size: int) -> None:
    newest = Newest(size)
    for head in heads:
        newest.add(*head)
    assert newest.heads() == tuple(sorted(set(heads))[-size:])


@given(HEADS)
def test_it_is_said_whether_a_message_is_new_among_them(heads: list[tuple[int, str]]) -> None:
    newest = Newest(3)
    for head in heads:
        before = newest.heads()
        assert newest.add(*head) == (newest.heads() != before)


def test_only_so_many_messages_count_as_having_passed_lately() -> None:
    passed = Passed(1_000)
    channels = [ChannelMembers(name, "spec", Newest(4), passed) for name in ("one", "other")]
    for number in range(1_500):
        for channel in channels:
            channel.note(f"m{number}", number)
    assert all(channel.has_passed("m1499") and not channel.has_passed("m0") for channel in channels)
    assert not ChannelMembers("third", "spec", Newest(4), passed).has_passed("m1499")


@given(st.lists(st.integers(0, 3_000), max_size=30), st.integers(600, 5_000))
def test_an_answer_is_cut_into_frames_that_fit(sizes: list[int], max_bytes: int) -> None:
    wires = [(bytes([index]) * size, None if index % 2 else bytes(17)) for index, size in enumerate(sizes)]
    parts = cut("room", 7, wires, max_bytes)
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert all(len(wire.encode(part)) - wire.LENGTH_BYTES <= max_bytes for part in parts)
    answered = [wire for part in parts for wire in part.wires]
    assert answered == [wire for wire in wires if wire in answered]
    assert all(len(wire[0]) > max_bytes - 200 for wire in wires if wire not in answered)


async def test_records_are_kept_in_order_and_their_share_is_given_back() -> None:
    backbone, settings = MemoryBackbone(), SdsEdgeSettings(store_batch=3, max_staged_items_per_peer=5)
    budget = PeerBudget(settings, 0.0)
    link = cast("Any", type("Link", (), {"budget": budget})())
    staging = Staging(backbone, settings, SdsMetrics())
    done: list[int] = []
    for number in range(10):
        record = SdsInRecord("spec", message("a", f"m{number}", number))
        staging.add(OutgoingRecord("room", record), link, lambda number=number: done.append(number))  # type: ignore[misc]
    assert budget.staged.items == 10 and budget.staged.size_bytes > 10
    running = asyncio.create_task(staging.run())
    async with while_working():
        await staging.wait_for_capacity(link)
        await staging.drained()
    running.cancel()
    assert done == list(range(10)) and (budget.staged.items, budget.staged.size_bytes) == (0, 0)
    assert [record.wire for _, record in backbone.said] == [
        message("a", f"m{number}", number) for number in range(10)
    ]
