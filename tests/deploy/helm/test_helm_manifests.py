"""The chart is rendered with each of its values files, and the manifests are what Kubernetes accepts."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from culm_infra.cli.root import run as culm
from tests.deploy.helm.charts import (
    CHART,
    KUBERNETES,
    VALUES,
    Manifest,
    containers,
    helm,
    manifests,
    named,
    of_kind,
    pods,
    selects,
)

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1_200)]

# Kinds of the Prometheus operator and of Strimzi, for which there are no schemas.
FOREIGN = {"PodMonitor", "PrometheusRule"}
EXTERNAL = {
    "ConfigMap": {"culm-peers", "bamboo-policy"},
    "ServiceAccount": set[str](),
    "PersistentVolumeClaim": set[str](),
}
"""Objects that the values files name and that exist before the release."""


@pytest.fixture(params=VALUES)
def values(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def rendered(values: str) -> list[Manifest]:
    return manifests(values)


def test_helm_finds_nothing_to_criticise(values: str) -> None:
    done = helm("lint", "--strict", CHART, "--values", CHART / f"values-{values}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr


def test_kubernetes_accepts_every_manifest(rendered: list[Manifest]) -> None:
    executors = [pod for name, pod in pods(rendered) if name.startswith("ConfigMap/")]
    checked = [document for document in rendered if document["kind"] not in FOREIGN] + executors
    for document in checked:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    assert len(checked) > 10


def test_the_check_of_manifests_refuses_an_unknown_field(rendered: list[Manifest]) -> None:
    service = of_kind(rendered, "Service")[0]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service | {"spec": {"prots": []}}, KUBERNETES, strict=True)


def test_every_object_has_its_own_name(rendered: list[Manifest]) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in rendered]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 for _, name in names)


def test_everything_that_a_pod_names_is_there(rendered: list[Manifest]) -> None:
    for name, pod in pods(rendered):
        spec = pod["spec"]
        wanted = {("ServiceAccount", spec["serviceAccountName"])}
        for volume in spec["volumes"]:
            if "configMap" in volume:
                wanted.add(("ConfigMap", volume["configMap"]["name"]))
            if "persistentVolumeClaim" in volume:
                wanted.add(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]))
        for kind, wanted_name in wanted:
            if wanted_name not in EXTERNAL[kind]:
                assert named(rendered, kind, wanted_name), (name, kind, wanted_name)


def test_every_mount_has_a_volume_and_every_volume_a_mount(rendered: list[Manifest]) -> None:
    for name, pod in pods(rendered):
        owners = [each for each in rendered if f"{each['kind']}/{each['metadata']['name']}" == name]
        claims = [claim for each in owners for claim in each.get("spec", {}).get("volumeClaimTemplates", [])]
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        mounts = {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]}
        assert mounts == volumes, name


def test_services_reach_ports_that_their_pods_have(rendered: list[Manifest]) -> None:
    all_pods = [pod for _, pod in pods(rendered)]
    for service in of_kind(rendered, "Service"):
        selector = dict(service["spec"]["selector"])
        pod_name = selector.pop("statefulset.kubernetes.io/pod-name", None)
        (pod,) = (pod for pod in all_pods if selects(selector, pod))
        ports = {port["name"]: port for each in containers(pod) for port in each.get("ports", [])}
        for port in service["spec"]["ports"]:
            target = ports[port["targetPort"]]
            assert (target["containerPort"], target["protocol"]) == (port["port"], port["protocol"])
        if pod_name is not None:
            assert pod_name == service["metadata"]["name"].removesuffix("-tcp")


def test_policies_and_budgets_select_the_pods_that_they_are_for(rendered: list[Manifest]) -> None:
    all_pods = [pod for _, pod in pods(rendered)]
    for document in of_kind(rendered, "NetworkPolicy", "PodDisruptionBudget"):
        spec = document["spec"]
        selector = (spec.get("podSelector") or spec["selector"])["matchLabels"]
        assert any(selects(selector, pod) for pod in all_pods), document["metadata"]["name"]
    for pod in all_pods:
        policies = of_kind(rendered, "NetworkPolicy")
        assert any(selects(policy["spec"]["podSelector"]["matchLabels"], pod) for policy in policies)


def test_workloads_select_their_own_pods_only(rendered: list[Manifest]) -> None:
    workloads = of_kind(rendered, "StatefulSet", "Deployment")
    for workload in workloads:
        selector = workload["spec"]["selector"]["matchLabels"]
        selected = [name for name, pod in pods(rendered) if selects(selector, pod)]
        assert selected == [f"{workload['kind']}/{workload['metadata']['name']}"]


def test_the_production_values_name_users_of_strimzi(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert culm(["topics", "acls", "--as", "strimzi", "--strimzi-cluster", "tides"]) == 0
    users = {user["metadata"]["name"] for user in yaml.safe_load_all(capsys.readouterr().out)}
    values = yaml.safe_load((CHART / "values-production.yaml").read_text())
    assert {user["name"] for user in values["kafka"]["users"].values()} <= users


def test_alerts_and_dashboards_are_those_of_the_repository() -> None:
    rendered = manifests("production")
    deploy = CHART.parents[1]
    (rules,) = of_kind(rendered, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((deploy / "prometheus" / "rules.yaml").read_text())
    written = {
        file: json.loads(text)
        for document in of_kind(rendered, "ConfigMap")
        if document["metadata"]["labels"].get("grafana_dashboard") == "1"
        for file, text in document["data"].items()
    }
    files = (deploy / "grafana" / "dashboards").glob("*.json")
    assert written == {file.name: json.loads(file.read_text()) for file in files}


def test_the_packaged_chart_has_its_alerts_and_dashboards(tmp_path: Path) -> None:
    done = helm("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("culm-*.tgz")
    with tarfile.open(archive) as packed:
        names = {member.name for member in packed if member.isfile()}
    assert {"culm/values.schema.json", "culm/files/rules.yaml"} <= names
    assert "culm/files/dashboards/culm-overview.json" in names
