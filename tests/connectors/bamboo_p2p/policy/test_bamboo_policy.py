"""The rules of an owner: what a file says, who may have a log, and which of several sources sends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.errors import PolicyError
from culm_connectors.bamboo_p2p.policy.document import (
    FolderPolicy,
    PeerRule,
    RetentionRule,
    parse_log_pattern,
    read_policy,
)
from culm_connectors.bamboo_p2p.policy.enforcement import (
    FORBIDDEN,
    LATER,
    Allowance,
    QuotaLedger,
    answer,
)
from culm_connectors.bamboo_p2p.policy.retention import retain
from culm_connectors.bamboo_p2p.policy.sources import Sighting, SourceChange, SourcePlan, SourceRole
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.hashes import YASMF
from culm_models.bamboo_p2p.settings import Direction, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import CancelCode, Eagerness
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author of a policy")
KEY = AUTHOR.public_key.hex()
LOG, OTHER = (AUTHOR.public_key, 0), (AUTHOR.public_key, 1)
KNOWN, UNKNOWN = Allowance(is_known=True), Allowance(is_known=False)


def written(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("*", {LOG, OTHER}),
        (KEY, {LOG, OTHER}),
        (f"{KEY.upper()}/*", {LOG, OTHER}),
        (f"{KEY}/1", {OTHER}),
        ("*/0", {LOG}),
        (f"{'00' * 32}/0", set()),
    ],
)
def test_a_pattern_names_a_log_an_author_a_log_id_or_all(text: str, matches: set[tuple[bytes, int]]) -> None:
    pattern = parse_log_pattern(text)
    assert {log for log in (LOG, OTHER) if pattern.matches(log)} == matches
    assert parse_log_pattern(str(pattern)) == pattern


def test_what_a_peers_table_leaves_out_is_as_in_the_default(tmp_path: Path) -> None:
    policy = read_policy(
        written(
            tmp_path,
            f"""
            [default]
            read = ["{KEY}/0"]
            write = []
            max_size = 100
            [peer.{KEY}]
            write = ["*"]
            [[peer.{KEY}.follow]]
            logs = ["{KEY}/7", "*/1"]
            take = "sparse"
            to = 99
            [retention]
            max_bytes = 5
            """,
        )
    )
    rule = policy.rule_for(KEY)
    assert rule.may_read(LOG) and not rule.may_read(OTHER) and rule.may_write(OTHER) and rule.max_size == 100
    assert not policy.rule_for("address:127.0.0.1").may_write(LOG)
    interests = rule.interests([LOG, OTHER])
    assert [(interest.log[1], interest.end, interest.sparse) for interest in interests] == [
        (7, 99, True),
        (1, 99, True),
    ]
    assert policy.retention.max_bytes == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("read = 1", "read"),
        ("[default]\nread = ['abc']", "default.read.0.*names no logs"),
        ("[peer.ann]\nread = []", "not a principal"),
        ("[default]\ncolour = 'blue'", "default.colour"),
        ("[[default.follow]]\nlogs = ['*']\ntake = 'sparse'", "default.follow.0.*needs `to`"),
        ("[[default.follow]]\nlogs = ['*']\nfrom = 3\nto = 2", "before its start"),
        ("[default]\nmin_size = -1", "default.min_size"),
        ("= 1", "TOML|cannot be read"),
    ],
)
def test_a_rule_that_is_none_is_named_by_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read_policy(written(tmp_path, text))


def test_an_unknown_log_and_a_forbidden_one_are_answered_alike() -> None:
    rule = PeerRule(read=(parse_log_pattern(f"{KEY}/0"),), write=())
    unknown, forbidden, both = (
        answer(rule, LOG, UNKNOWN),
        answer(rule, OTHER, KNOWN),
        answer(rule, OTHER, UNKNOWN),
    )
    assert unknown == forbidden == both == FORBIDDEN
    assert (unknown.answer, unknown.code, unknown.reveals) == (
        PolicyAnswer.REFUSE,
        CancelCode.REFUSED,
        False,
    )
    paused = Allowance(is_known=True, is_paused=True)
    assert answer(rule, OTHER, paused) == FORBIDDEN and answer(rule, LOG, paused) == LATER


def test_the_direction_follows_from_who_may_read_and_write() -> None:
    all_logs, none = PeerRule().read, ()
    directions = {
        (bool(read), bool(write)): answer(PeerRule(read=read, write=write), LOG, KNOWN)
        for read in (all_logs, none)
        for write in (all_logs, none)
    }
    assert directions[True, True].direction is Direction.BOTH
    assert directions[True, False].direction is Direction.PUSH
    assert directions[False, True].direction is Direction.PULL
    assert not directions[False, True].reveals
    assert directions[False, False] == FORBIDDEN


def test_a_full_author_is_refused_for_good_and_a_full_peer_for_now() -> None:
    writer = PeerRule(read=())
    assert answer(writer, LOG, Allowance(True, author_is_full=True)).code is CancelCode.REFUSED
    assert answer(writer, LOG, Allowance(True, peer_is_full=True)).code is CancelCode.RESOURCES
    both = answer(PeerRule(), LOG, Allowance(True, peer_is_full=True))
    assert (both.answer, both.direction) == (PolicyAnswer.CONFIRM, Direction.PUSH)


def test_sizes_eagerness_and_mandatory_payloads_stand_in_the_confirmation() -> None:
    rule = PeerRule(min_size=2, max_size=50, threshold=10, mandatory=True)
    confirmation = answer(rule, LOG, KNOWN, largest=40)
    assert (confirmation.min_size, confirmation.max_size, confirmation.threshold, confirmation.may_skip) == (
        2,
        40,
        10,
        False,
    )
    assert confirmation.eagerness is Eagerness.THRESHOLD
    assert answer(PeerRule(take="notify"), LOG, KNOWN).eagerness is Eagerness.NOTIFY


def test_what_a_peer_brought_flows_away_evenly() -> None:
    ledger = QuotaLedger()
    quota = {"quota": 100, "period_s": 10.0}
    ledger.add("ann", 120, 0.0, **quota)  # type: ignore[arg-type]
    full = [ledger.is_full("ann", now_s, **quota) for now_s in (0.0, 1.9, 2.1)]  # type: ignore[arg-type]
    assert full == [True, True, False]
    assert not ledger.is_full("bob", 0.0, **quota)  # type: ignore[arg-type]


def with_payloads(folder: Path, clock_s: list[float]) -> FolderStore:
    store = FolderStore(folder, YASMF, clock_s=lambda: clock_s[0])
    for number in range(6):
        clock_s[0] = number * 10.0
        with store.exclusively():
            publish(store, AUTHOR, number % 2, bytes(100))
    return store


def test_payloads_are_dropped_by_age_and_the_oldest_by_size_and_entries_stay(tmp_path: Path) -> None:
    clock_s = [0.0]
    store = with_payloads(tmp_path, clock_s)
    with store.exclusively():
        assert retain(store, RetentionRule(max_age_s=35), 50.0) == [(LOG, 1), (OTHER, 1)]
        assert retain(store, RetentionRule(max_bytes=300), 50.0) == [(LOG, 2)]
        assert retain(store, RetentionRule(max_bytes=300), 50.0) == []
    assert list(store.dropped(LOG)) == [(1, 3)] and list(store.entries(LOG)) == [(1, 4)]
    store.close()


def test_retention_leaves_logs_alone_that_it_is_not_about(tmp_path: Path) -> None:
    store = with_payloads(tmp_path, [0.0])
    rule = RetentionRule(max_bytes=100, logs=(parse_log_pattern("*/1"),))
    with store.exclusively():
        assert retain(store, rule, 50.0) == [(OTHER, 1), (OTHER, 2)]
    assert store.log_bytes(LOG) == 300 and store.log_bytes(OTHER) == 100
    store.close()


def test_a_policy_without_rules_lets_everybody_read_and_write() -> None:
    confirmation = answer(FolderPolicy().rule_for("address:127.0.0.1"), LOG, UNKNOWN)
    assert (confirmation.answer, confirmation.direction) == (PolicyAnswer.CONFIRM, Direction.BOTH)


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
