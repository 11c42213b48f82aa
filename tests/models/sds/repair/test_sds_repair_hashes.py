"""When SDS-R asks and answers, against both implementations (tests/vectors/sds/README.md)."""

import json
from pathlib import Path
from typing import Any

import pytest

from culm_models.sds.repair.hashes import (
    in_response_group,
    request_offset_ms,
    response_offset_ms,
)
from culm_models.sds.wire.messages import RepairHash

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
