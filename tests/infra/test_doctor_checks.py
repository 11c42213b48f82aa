"""Checks of the doctor beyond the machine: settings, doors, clock, rights; what it says while it waits."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from culm_infra.cli.root import run
from culm_infra.doctor import doors, rights
from culm_infra.doctor.cluster import check_topics, judge_clock
from culm_infra.doctor.rights import judge
from culm_infra.round_trip import BrokerClock
from culm_topics.kafka import admin
from culm_topics.kafka.acls import Acl, acls
from culm_topics.kafka.clients import KafkaSettings

KAFKA = KafkaSettings(bootstrap="none", prefix="tides.")
_TYPES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefixed": ResourcePatternType.PREFIXED}


def test_wrong_settings_are_findings_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "culm.toml"
    file.write_text('bootstrap = "127.0.0.1:1"\n[connector]\nmetrics_port = 70000\n')
    monkeypatch.delenv("CULM_CONFIG", raising=False)
    assert run(["doctor", "--config", str(file), "--json"]) == 3
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (wrong,) = [row for row in rows if row["name"] == "settings"]
    assert wrong["state"] == "failed" and "culm.toml:3" in wrong["detail"] and wrong["advice"]
    (kafka,) = [row for row in rows if row["name"] == "kafka"]
    assert kafka["state"] == "skipped", "without settings no Kafka is known"


def test_every_finding_is_one_object_and_has_advice_unless_it_is_ok(
    no_settings_from_outside: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["doctor", "--stack", str(tmp_path / "none"), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"settings", "quic door", "tcp door", "kafka"} <= {row["name"] for row in rows}
    assert [row for row in rows if row["state"] != "ok" and not row["advice"]] == []


def test_a_door_carries_a_byte_there_and_back() -> None:
    for finding in (doors.check_quic_door(20.0), doors.check_tcp_door(20.0)):
        assert finding.state == "ok", finding
        assert re.search(r"127\.0\.0\.1 port [1-9]\d*", finding.detail)


def test_a_door_that_cannot_be_opened_names_the_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address of a network that this machine does not have.
    monkeypatch.setattr(doors, "_HOST", "192.0.2.1")
    for finding, network in ((doors.check_quic_door(5.0), "UDP"), (doors.check_tcp_door(5.0), "TCP")):
        assert finding.state == "failed"
        assert network in finding.detail and f"{network} on the interface" in (finding.advice or "")
        assert "firewall" in (finding.advice or "")


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "state"),
    [
        (0.2, 0.01, "ok"),
        (-1.5, 0.01, "warning"),
        (1.5, 0.6, "ok"),
        (61.0, 0.1, "failed"),
        (-61.0, 2.0, "warning"),
    ],
)
def test_the_clock_is_judged_by_what_is_certain(offset_s: float, uncertainty_s: float, state: str) -> None:
    finding = judge_clock(BrokerClock(offset_s, uncertainty_s))
    assert finding.state == state
    assert ("ahead of" if offset_s > 0 else "behind") in finding.detail
    assert (finding.advice is None) == (state == "ok")


def test_a_broker_without_a_time_of_its_own_skips_the_clock() -> None:
    assert judge_clock(None).state == "skipped"


def test_a_program_with_all_rights_is_ok_and_a_missing_right_is_named() -> None:
    needed = acls(KAFKA, ("connector",))
    granted = [_binding(right) for right in needed]
    assert judge("connector", "User:edge", needed, granted).state == "ok"
    finding = judge("connector", "User:edge", needed, granted[1:])
    assert finding.state == "failed"
    assert needed[0].name in finding.detail
    assert "culm topics acls --as script --program connector" in (finding.advice or "")


def test_a_right_follows_from_a_prefix_from_all_operations_and_from_reading() -> None:
    needed = (Acl("job", "topic", "tides.logs", "literal", "Describe"),)
    for operation in (AclOperation.READ, AclOperation.ALL, AclOperation.DESCRIBE):
        granted = [_of("tides.", ResourcePatternType.PREFIXED, operation)]
        assert judge("job", "User:edge", needed, granted).state == "ok"
    narrow = [_of("tides.logs-old", ResourcePatternType.PREFIXED, AclOperation.ALL)]
    assert judge("job", "User:edge", needed, narrow).state == "failed"


def test_a_literal_right_does_not_grant_a_prefix() -> None:
    needed = (Acl("job", "group", "tides.job-", "prefixed", "Read"),)
    literal = [_of("tides.job-", ResourcePatternType.LITERAL, AclOperation.READ, ResourceType.GROUP)]
    assert judge("job", "User:edge", needed, literal).state == "failed"


def test_a_denied_right_is_missing_although_it_is_granted_as_well() -> None:
    needed = acls(KAFKA, ("consumer",))
    granted = [_binding(right) for right in needed]
    denied = _binding(needed[0], AclPermissionType.DENY)
    assert judge("consumer", "User:edge", needed, [*granted, denied]).state == "failed"


def test_a_program_without_any_right_is_skipped_with_the_way_to_name_its_user() -> None:
    finding = judge("job", "User:culm-job", acls(KAFKA, ("job",)), [])
    assert finding.state == "skipped"
    assert "--principal job=User:NAME" in (finding.advice or "")


def test_the_doctor_says_what_it_waits_for_and_ends_at_its_timeout(
    no_settings_from_outside: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert run(["doctor", "--bootstrap", address, "--timeout", "2"]) == 3
    printed = capsys.readouterr()
    assert f"waiting for Kafka at {address}, at most 2 s for each step (--timeout)" in printed.err
    assert "is " + address + " right and reachable?" in printed.out


def _binding(right: Acl, permission: AclPermissionType = AclPermissionType.ALLOW) -> AclBinding:
    operation = AclOperation[
        {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(right.operation, right.operation.upper())
    ]
    return _of(right.name, _PATTERNS[right.pattern], operation, _TYPES[right.resource], permission)


def _of(
    name: str,
    pattern: ResourcePatternType,
    operation: AclOperation,
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:edge", "*", operation, permission)


def test_a_listing_of_rights_that_is_not_answered_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def granted(kafka: KafkaSettings, timeout_s: float) -> None:
        raise TimeoutError

    monkeypatch.setattr(rights, "_granted", granted)
    (finding,) = rights.check_rights(KAFKA, {}, 0.1)
    assert (finding.state, finding.detail) == ("skipped", "no answer in time")


@pytest.mark.parametrize(
    ("prefix", "detail"), [("tides.", "with the prefix 'tides.'"), ("", "without a prefix")]
)
def test_topics_in_order_are_reported_with_their_prefix(
    prefix: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "check", lambda *_, **__: ())
    monkeypatch.setattr(admin, "durability", lambda *_, **__: ())
    (finding,) = check_topics(KafkaSettings(bootstrap="none", prefix=prefix), 0.1)
    assert finding.state == "ok" and detail in finding.detail
