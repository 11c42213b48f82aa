"""Several sources of one log: one sends, the others say what they have; who stands still is replaced."""

from __future__ import annotations

from culm_connectors.bamboo_p2p.policy.sources import Sighting, SourceChange, SourcePlan, SourceRole

TIMEOUT_S = 10.0
MORE, IDLE = Sighting(notifies_missing=True), Sighting()
SENDS, NOTIFIES = SourceRole.SENDS, SourceRole.NOTIFIES


def changes(plan: SourcePlan, seen: dict[str, Sighting], now_s: float) -> list[tuple[str, SourceRole]]:
    return [(change.source, change.role) for change in plan.decide(seen, now_s)]


def begun(*names: str) -> SourcePlan:
    plan = SourcePlan(TIMEOUT_S)
    plan.decide(dict.fromkeys(names, IDLE), 0.0)
    return plan


def test_the_first_source_sends_and_those_that_come_later_notify() -> None:
    plan = SourcePlan(TIMEOUT_S)
    assert changes(plan, {"a": IDLE, "b": IDLE}, 0.0) == [("a", SENDS), ("b", NOTIFIES)]
    assert changes(plan, {"a": IDLE, "b": IDLE, "c": IDLE}, 1.0) == [("c", NOTIFIES)]
    assert changes(plan, {"a": IDLE, "b": IDLE, "c": IDLE}, 1_000.0) == []


def test_when_the_sender_is_gone_one_that_has_more_takes_over_at_once() -> None:
    plan = begun("a", "b", "c")
    assert changes(plan, {"b": IDLE, "c": MORE}, 1.0) == [("c", SENDS)]


def test_a_sender_that_stands_still_while_another_has_more_is_replaced_after_the_time_out() -> None:
    plan = begun("a", "b")
    seen = {"a": IDLE, "b": MORE}
    assert changes(plan, seen, 1.0) == [] and changes(plan, seen, 9.9) == []
    assert plan.decide(seen, 11.0) == [
        SourceChange("a", NOTIFIES, is_failover=True),
        SourceChange("b", SENDS),
    ]
    assert plan.sender == "b"


def test_a_sender_that_moves_or_is_not_behind_stays() -> None:
    plan = begun("a", "b")
    for number in range(1, 50):
        seen = {"a": Sighting((number // 3,)), "b": MORE}
        assert changes(plan, seen, number * 3.0) == []
    assert changes(plan, {"a": Sighting((99,)), "b": IDLE}, 10_000.0) == []
    assert changes(plan, {"a": Sighting((99,)), "b": MORE}, 10_005.0) == []
    assert changes(plan, {"a": Sighting((99,)), "b": MORE}, 10_010.0) != []


def test_a_sender_whose_requests_have_ended_is_replaced_without_waiting() -> None:
    plan = begun("a", "b")
    assert ("b", SENDS) in changes(plan, {"a": Sighting(is_asked=False), "b": MORE}, 0.1)


def test_two_that_have_both_failed_do_not_take_turns_faster_than_the_time_out() -> None:
    plan = begun("a", "b")
    refused = {
        "a": Sighting(is_asked=False, notifies_missing=True),
        "b": Sighting(is_asked=False, notifies_missing=True),
    }
    turns = [len(changes(plan, refused, now_s / 10)) for now_s in range(1, 100)]
    assert sum(turns) == 2
    assert plan.sender == "b"
