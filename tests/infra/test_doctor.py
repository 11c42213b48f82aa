"""The doctor: what it finds, what it advises, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from culm_infra.cli.root import run
from culm_infra.doctor import machine
from culm_infra.doctor.finding import Finding, is_healthy
from culm_infra.doctor.machine import Requirement


@pytest.mark.kafka
def test_a_record_goes_through_the_real_broker_and_leaves_no_topic(
    kafka_bootstrap: str,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CULM_PREFIX", topic_prefix)
    assert run(["doctor", "--bootstrap", kafka_bootstrap, "--json"]) == 0
    findings = _findings(capsys.readouterr().out)
    states = {name: finding["state"] for name, finding in findings.items()}
    assert states["kafka"] == states["java"] == states["jars: broker"] == states["clock"] == "ok"
    assert states["topics"] == "warning" and "culm topics create" in str(findings["topics"]["advice"])
    assert states["rights"] == "ok" and "no authoriser" in str(findings["rights"]["detail"])
    topics = AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=30).topics
    assert not [topic for topic in topics if topic.startswith(topic_prefix)]


@pytest.mark.kafka
def test_sasl_without_a_mechanism_is_told_about_gssapi(
    kafka_bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["doctor", "--bootstrap", kafka_bootstrap, "--json"]
    assert run([*arguments, "--kafka-option", "security.protocol=SASL_PLAINTEXT"]) == 3
    findings = _findings(capsys.readouterr().out)
    assert findings["kafka"]["state"] == "failed"
    assert "sasl.mechanism" in str(findings["kafka"]["advice"])


def test_no_kafka_at_all_is_said_and_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CULM_BOOTSTRAP", raising=False)
    assert run(["doctor", "--stack", str(tmp_path / "none")]) == 0
    assert "culm stack up" in capsys.readouterr().out


def test_missing_and_damaged_jars_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULM_JARS_DIR", str(tmp_path))
    assert machine.check_jars("spark").state == "warning"
    (tmp_path / "kafka-clients-3.9.2.jar").write_bytes(b"something else")
    finding = machine.check_jars("spark")
    assert finding.state == "failed"
    assert "kafka-clients-3.9.2.jar" in finding.detail


@pytest.mark.parametrize(
    ("at_least", "below", "state"), [((1,), None, "ok"), ((99,), None, "failed"), ((1,), (2,), "failed")]
)
def test_versions_are_held_to_their_bounds(
    at_least: tuple[int, ...], below: tuple[int, ...] | None, state: str
) -> None:
    assert machine.check_distribution(Requirement("pytest", at_least, below, "dev", "why")).state == state


def test_what_is_not_installed_is_skipped_and_named() -> None:
    finding = machine.check_distribution(Requirement("culm-no-such", (1,), None, "streaming", "why"))
    assert finding.state == "skipped"
    assert "culm[streaming]" in (finding.advice or "")


def test_another_python_for_sparks_workers_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.8\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert machine.check_pyspark_python().state == "failed"
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    assert machine.check_pyspark_python().state == "failed"


def test_only_a_failure_makes_it_unhealthy() -> None:
    assert is_healthy([Finding("a", "ok", ""), Finding("b", "warning", ""), Finding("c", "skipped", "")])
    assert not is_healthy([Finding("a", "ok", ""), Finding("b", "failed", "")])


def _findings(printed: str) -> dict[str, dict[str, str | None]]:
    """The findings of `culm doctor --json` by name."""
    return {row["name"]: row for row in map(json.loads, printed.splitlines())}
