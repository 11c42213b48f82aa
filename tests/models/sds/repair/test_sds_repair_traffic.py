"""Repair requests (SDS-R) for messages that nobody has at most double what a channel sends in an hour."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from culm_models.sds.repair.hashes import (
    in_response_group,
    request_offset_ms,
    response_offset_ms,
)
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import HistoryEntry, Message, RepairHash
from culm_models.testing.sds.network import NETWORK_CHANNEL, NETWORK_START_MS, SdsNetwork

_HOUR_MS = 3_600_000


def network(participants: int) -> SdsNetwork:
    """A channel in which somebody has spoken a while ago."""
    settings = replace(SdsSettings.for_participants("spec"), bloom_capacity=1_000)
    channel = SdsNetwork(participants, settings, seed=1, delay_ms=(50, 150))
    channel.send(0, b"hello")
    channel.run_until(channel.now_ms + 60_000)
    return channel


def invented(number: int, ids: int) -> bytes:
    """A sync without a filter that names ids of no message."""
    history = tuple(HistoryEntry(f"invented {number}, {index}") for index in range(ids))
    lamport = NETWORK_START_MS + 60_000
    return encode(Message("eve", f"sync-{number}", NETWORK_CHANNEL, lamport, history), "spec")


def bytes_of_an_hour(participants: int, ids: int, pause_ms: int | None) -> int:
    channel = network(participants)
    before, end_ms = channel.counts["bytes"], channel.now_ms + _HOUR_MS
    channel.broadcast("eve", invented(0, ids))
    sent = 0
    while channel.now_ms < end_ms:
        channel.run_until(min(end_ms, channel.now_ms + (pause_ms or _HOUR_MS)))
        if pause_ms is not None:
            channel.send(sent % participants, b"words")
            sent += 1
    return channel.counts["bytes"] - before


@pytest.mark.parametrize(("participants", "pause_ms"), [(3, None), (3, 300_000), (8, None)])
def test_invented_ids_at_most_double_what_a_channel_sends_in_an_hour(
    participants: int, pause_ms: int | None
) -> None:
    without = bytes_of_an_hour(participants, 0, pause_ms)
    for ids in (1, 10, 100):
        assert bytes_of_an_hour(participants, ids, pause_ms) <= 2 * without, ids


@pytest.mark.soak
@pytest.mark.parametrize("participants", [3, 10, 30, 100])
@pytest.mark.parametrize("pause_ms", [None, 300_000, 60_000, 10_000])
def test_invented_ids_at_most_double_the_traffic_of_any_group(
    participants: int, pause_ms: int | None
) -> None:
    without = bytes_of_an_hour(participants, 0, pause_ms)
    for ids in (1, 10, 100, 1_000):
        assert bytes_of_an_hour(participants, ids, pause_ms) <= 2 * without, ids


def test_messages_that_were_really_lost_are_asked_for_a_bounded_number_of_times() -> None:
    channel = network(3)
    asked: list[str] = []
    channel.on_event = lambda _, event: (
        asked.append(event.message_id) if event.kind == "repair_requested" else None
    )
    channel.broadcast("eve", invented(0, 10))
    channel.run_until(channel.now_ms + 2 * _HOUR_MS)
    # Eight attempts of each, spread over the three.
    assert 10 <= len(asked) <= 10 * 8 * 3 // 2


# When SDS-R asks and answers, against both implementations (tests/vectors/sds/README.md).


VECTORS = Path(__file__).parents[3] / "vectors" / "sds"
RULES: dict[RepairHash, dict[str, Any]] = {
    "sha256": json.loads((VECTORS / "repair-js.json").read_text()),
    "farmhash": json.loads((VECTORS / "repair-nim.json").read_text()),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_request_comes_when_the_implementation_sends_it(rule: RepairHash) -> None:
    for participant_id, message_id, t_min_ms, t_max_ms, expected in RULES[rule]["requests"]:
        assert request_offset_ms(rule, participant_id, message_id, t_min_ms, t_max_ms) == expected


@pytest.mark.parametrize("rule", RULES)
def test_an_answer_comes_when_the_implementation_sends_it(rule: RepairHash) -> None:
    for participant_id, sender_id, message_id, t_max_ms, expected in RULES[rule]["responses"]:
        assert response_offset_ms(rule, participant_id, sender_id, message_id, t_max_ms) == expected


@pytest.mark.parametrize("rule", RULES)
def test_those_answer_whom_the_implementation_lets_answer(rule: RepairHash) -> None:
    for participant_id, sender_id, message_id, groups, expected in RULES[rule]["groups"]:
        assert in_response_group(rule, participant_id, sender_id, message_id, groups) == expected


@pytest.mark.parametrize("rule", RULES)
def test_the_writer_of_a_message_answers_at_once(rule: RepairHash) -> None:
    assert response_offset_ms(rule, "alice", "alice", "m1", 120_000) == 0


@pytest.mark.parametrize("rule", RULES)
def test_equal_bounds_of_the_request_time_leave_no_choice(rule: RepairHash) -> None:
    assert request_offset_ms(rule, "alice", "m1", 500, 500) == 500
