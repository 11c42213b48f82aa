"""Alert rules: every metric and label exists, every alert is tested, and a section says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import expressions
from tests.deploy.tools import ROOT, promtool, run

FOLDER = expressions.RULES.parent
PAGE = ROOT / "docs" / "deploy" / "monitoring.md"
ALERTS = [rule for rule in expressions.rules() if "alert" in rule]
RECORDED = [rule for rule in expressions.rules() if "record" in rule]


def rule_tests() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "rules-test.yaml").read_text(encoding="utf-8"))
    tests: list[dict[str, Any]] = document["tests"]
    return tests


@pytest.mark.parametrize("rule", expressions.rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_metric_and_label_of_a_rule_exists(rule: dict[str, Any]) -> None:
    assert not expressions.faults(rule["expr"])


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("culm_nothing > 0", "no metric culm_nothing"),
        ('culm_connections{query="logs"}', "culm_connections has no label query"),
        ('culm_connections{protocol="ssb"}', "protocol is never 'ssb'"),
        ('culm_rejected_total{protocol=~"sds|ssb"}', "protocol is never 'ssb'"),
        ("sum by (peer) (culm_connections)", "no series has the label peer"),
        ("rate(culm_rejected[5m])", "no metric culm_rejected"),
        ("time() - culm_job_batch_seconds", "no metric culm_job_batch_seconds"),
    ],
)
def test_a_wrong_expression_is_noticed(expression: str, fault: str) -> None:
    assert fault in expressions.faults(expression)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_severe_it_is_what_happened_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description", "runbook"}
    assert annotations["description"].endswith(".")
    page, _, anchor = annotations["runbook"].partition("#")
    assert ROOT / page == PAGE
    assert anchor == rule["alert"].lower()
    assert f"\n### {rule['alert']}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_labels_in_the_texts_of_an_alert_are_labels_of_its_series(rule: dict[str, Any]) -> None:
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    selectors = list(expressions.selectors(rule["expr"]))
    labels = expressions.grouping(rule["expr"]) or set.union(
        *(set(expressions.series()[each.name]) for each in selectors)
    )
    assert used <= labels


def test_the_page_has_no_section_for_an_alert_that_does_not_exist() -> None:
    sections = re.findall(r"^### (Culm\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == list(dict.fromkeys(sections))
    assert set(sections) == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_test_in_which_it_fires_and_a_time_before_at_which_it_does_not(
    rule: dict[str, Any],
) -> None:
    (test,) = (test for test in rule_tests() if test["name"] == rule["alert"])
    silent, fires = test["alert_rule_test"]
    assert silent["alertname"] == fires["alertname"] == rule["alert"]
    assert (silent["exp_alerts"], len(fires["exp_alerts"])) == ([], 1)


def test_the_rolling_restart_has_every_series_that_rules_read() -> None:
    restart = next(test for test in rule_tests() if test["name"] == "a rolling restart")
    names = {each["series"].partition("{")[0] for each in restart["input_series"]}
    read = {each.name for rule in expressions.rules() for each in expressions.selectors(rule["expr"])}
    assert read - {rule["record"] for rule in RECORDED} == names


def test_the_example_scrapes_both_jobs_and_loads_the_rules() -> None:
    document = yaml.safe_load((FOLDER / "prometheus.yaml").read_text(encoding="utf-8"))
    jobs = {each["job_name"]: each["static_configs"][0]["targets"] for each in document["scrape_configs"]}
    assert jobs == {"culm-connector": ["127.0.0.1:9100"], "culm-jobs": ["127.0.0.1:9101"]}
    assert document["rule_files"] == ["rules.yaml"]


@pytest.mark.deploy
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules.yaml"),
        ("check", "config", "prometheus.yaml"),
        ("test", "rules", "rules-test.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_files(arguments: tuple[str, ...]) -> None:
    done = run(promtool(), *arguments, folder=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.deploy
@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_a_rule_that_never_fires_fails_its_test(rule: dict[str, Any], tmp_path: Path) -> None:
    """The tests of the rules would notice it."""
    document = yaml.safe_load(expressions.RULES.read_text(encoding="utf-8"))
    for group in document["groups"]:
        for each in group["rules"]:
            if each.get("alert") == rule["alert"]:
                each["expr"] = f"({each['expr']}) and on () vector(1) < 0"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    (tmp_path / "rules-test.yaml").write_bytes((FOLDER / "rules-test.yaml").read_bytes())
    done = run(promtool(), "test", "rules", "rules-test.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert f"alertname: {rule['alert']}, " in done.stdout + done.stderr
