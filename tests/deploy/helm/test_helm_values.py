"""Wrong values are refused by the chart, with the value and what to do."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import TypeVar

import pytest
import yaml

from culm_infra.protocols import NOUNS
from culm_topics.catalogue.jobs import groups
from culm_topics.kafka import clients
from tests.deploy.helm.charts import CHART, containers, helm, manifests, named, of_kind, pods, template

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
Test = TypeVar("Test", bound=Callable[..., None])


def with_helm(test: Test) -> Test:
    """Mark a test that needs Helm, which is built at its first use."""
    marked: Test = pytest.mark.deploy(pytest.mark.timeout(1_200)(test))
    return marked


def _set(*pairs: str) -> tuple[str, ...]:
    return tuple(word for pair in pairs for word in ("--set-json", pair))


REFUSED = {
    "settings.bootstrap is not set": _set('settings.bootstrap=""'),
    "'/settings/bootstrap'": _set('settings.bootstrap="kafka"'),
    "settings.kafka has sasl.password": _set('settings.kafka={"sasl.password":"x"}'),
    "settings.connector.listen is set by the chart: use connector.doors.quic.port": _set(
        'settings.connector={"listen":"0.0.0.0:1"}'
    ),
    "settings.job.checkpoints is set by the chart: use jobs.checkpoints.url": _set(
        'settings.job={"checkpoints":"/x"}'
    ),
    "settings.console.token is set by the chart": _set('settings.console={"token":"x"}'),
    "additional properties 'replica' not allowed": _set("connector.replica=3"),
    "'/connector/replicas'": _set("connector.replicas=-1"),
    "'/connector/doors/quic/port'": _set("connector.doors.quic.port=443"),
    "'/connector/key/from'": _set('connector.key.from="file"'),
    "'/connector/persistence/size'": _set('connector.persistence.size="much"'),
    "'/jobs/groups'": _set('jobs.groups={"logz":{"enabled":true}}'),
    "'/jobs/checkpoints/url'": _set('jobs.checkpoints.url="/data"'),
    "'/jobs/sparkOptions'": _set('jobs.sparkOptions={"sparc.x":"1"}'),
    "'/jobs/resources'": _set('jobs.resources={"requests":{"cpu":1,"memory":"1Gi"},"limits":null}'),
    "'/topics/protocols/0'": _set('topics.protocols=["quic"]'),
    "connector.persistence is off": _set("connector.persistence.enabled=false"),
    "name the Secret in connector.key.secret": _set('connector.key.from="secret"'),
    "connector.doors.chotkiTls needs a certificate": _set("connector.doors.chotkiTls.enabled=true"),
    "connector.allowList has text and configMap": _set(
        'connector.allowList={"text":"[peers]","configMap":"peers"}'
    ),
    "set at least 75": _set("connector.drain.graceSeconds=60"),
    "jobs.executors need checkpoints": _set("jobs.executors.enabled=true"),
    "the console needs an access token": _set("console.enabled=true", "console.behindProxy=true"),
    "the console needs TLS": _set("console.enabled=true", 'console.token.secret="t"'),
}


@with_helm
@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_value_is_refused_with_its_place(message: str) -> None:
    done = template("one-node", *REFUSED[message])
    assert done.returncode != 0
    assert message in done.stderr


@with_helm
def test_the_chart_says_what_is_missing_without_values() -> None:
    done = helm("template", "culm", CHART)
    assert done.returncode != 0
    assert "settings.bootstrap is not set: name Kafka's brokers" in done.stderr


@with_helm
def test_every_part_can_be_turned_off() -> None:
    off = _set("connector.enabled=false", "jobs.enabled=false", "topics.enabled=false")
    assert manifests("one-node", *off) == []


@with_helm
def test_the_defaults_are_one_connector_and_the_jobs_of_logs() -> None:
    done = helm("template", "culm", CHART, "--set", "settings.bootstrap=kafka:9092")
    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert {name for name, _ in pods(documents)} == {
        "StatefulSet/culm-connector",
        "Deployment/culm-job-all",
        "Job/culm-topics",
    }
    for _, pod in pods(documents):
        for container in containers(pod):
            assert re.fullmatch(r"culm-(connector|jobs|tools):[0-9.]+", container["image"])


@with_helm
def test_new_settings_restart_the_pods_that_read_them() -> None:
    def marks(*pairs: str) -> dict[str, str]:
        documents = of_kind(manifests("one-node", *_set(*pairs)), "StatefulSet", "Deployment")
        return {
            each["kind"]: each["spec"]["template"]["metadata"]["annotations"]["culm/settings"]
            for each in documents
        }

    before = marks()
    assert marks('settings.job={"shards":8}')["Deployment"] != before["Deployment"]
    assert marks('settings.job={"shards":8}')["StatefulSet"] == before["StatefulSet"]
    assert marks('connector.allowList.text="[peers]"')["Deployment"] == before["Deployment"]
    with_list = marks('connector.allowList.text="[peers]"')
    # Connectors read a changed allow-list themselves.
    assert marks('connector.allowList.text="[peers]\\n# more"') == with_list


@with_helm
def test_a_connector_that_drains_is_ready_until_its_connections_have_ended() -> None:
    """Otherwise Kubernetes forgets its UDP flows, and connections break that would have ended in order."""
    for unready, spread in ((5, 10), (0, 0), (7, 61)):
        pairs = (f"connector.drain.unreadySeconds={unready}", f"connector.drain.spreadSeconds={spread}")
        documents = manifests("one-node", *_set(*pairs, "connector.drain.graceSeconds=200"))
        pod = named(documents, "StatefulSet", "culm-connector")["spec"]["template"]["spec"]
        probe = pod["containers"][0]["readinessProbe"]
        assert probe["failureThreshold"] * probe["periodSeconds"] > unready + spread
        assert pod["terminationGracePeriodSeconds"] >= unready + spread + 60


def test_the_schema_knows_every_group_of_jobs_and_every_protocol() -> None:
    properties = SCHEMA["properties"]
    assert properties["jobs"]["properties"]["groups"]["properties"].keys() == set(groups())
    assert properties["topics"]["properties"]["protocols"]["items"]["enum"] == list(NOUNS)


def test_the_chart_knows_a_secret_as_culm_does() -> None:
    text = (CHART / "templates" / "_settings.tpl").read_text()
    (pattern,) = re.findall(r'regexMatch "\(\?i\)(.*?)" \$name', text)
    assert pattern.replace("\\\\", "\\") == clients._SECRET.pattern


def test_every_value_has_a_place_in_the_schema() -> None:
    def check(values: object, schema: dict[str, object], place: str) -> None:
        schema = SCHEMA["$defs"][str(schema["$ref"]).rpartition("/")[2]] if "$ref" in schema else schema
        properties = schema.get("properties")
        if isinstance(values, dict) and isinstance(properties, dict) and not schema.get("description"):
            assert values.keys() <= properties.keys(), place
            for name, value in values.items():
                check(value, properties[name], f"{place}.{name}")

    check(DEFAULTS, SCHEMA, "values")


@with_helm
@pytest.mark.parametrize(("limit", "threads"), [('"4"', 4), ('"500m"', 1), ("2.5", 2), ('"3500m"', 3)])
def test_threads_that_check_entries_follow_the_limit(limit: str, threads: int) -> None:
    """Python counts the cores of the node, of which a pod may use few."""

    def threads_with(*pairs: str) -> int:
        documents = manifests("one-node", *_set(f"connector.resources.limits.cpu={limit}", *pairs))
        settings = named(documents, "ConfigMap", "culm-connector")["data"]["culm.toml"]
        return int(tomllib.loads(settings)["connector"]["check_threads"])

    assert threads_with() == threads
    assert threads_with("settings.connector.check_threads=7") == 7
