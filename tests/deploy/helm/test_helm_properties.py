"""Properties of the rendered chart on which safety and operation depend."""

from __future__ import annotations

import tomllib

import pytest

from culm_topics.kafka.clients import is_secret
from tests.deploy.helm.charts import (
    VALUES,
    Manifest,
    containers,
    manifests,
    named,
    of_kind,
    plain_variables,
    pods,
)

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1_200)]

# The volumes that the standard `restricted` for pods allows.
ALLOWED_VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}


@pytest.fixture(params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[Manifest]:
    return manifests(str(request.param))


def test_every_pod_is_restricted(rendered: list[Manifest]) -> None:
    for name, pod in pods(rendered):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert (security["runAsUser"], security["runAsGroup"], security["fsGroup"]) == (10001, 10001, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for volume in spec["volumes"]:
            assert volume.keys() - {"name"} <= ALLOWED_VOLUMES, volume
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not any("hostPort" in port for port in container.get("ports", []))


def test_a_private_key_in_a_volume_is_not_opened_to_the_group(rendered: list[Manifest]) -> None:
    """Kubernetes makes files of a volume writable for `fsGroup`, and a connector refuses such a key."""
    for name, pod in pods(rendered):
        assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch", name


def test_every_container_has_requests_and_limits(rendered: list[Manifest]) -> None:
    for name, pod in pods(rendered):
        for container in containers(pod):
            for amounts in ("requests", "limits"):
                assert container["resources"][amounts].keys() >= {"cpu", "memory"}, name


def test_every_program_that_stays_is_probed(rendered: list[Manifest]) -> None:
    for name, pod in pods(rendered):
        if name.startswith("Job/"):
            continue
        for container in pod["spec"]["containers"]:
            # Spark adds the port of executors.
            ports = {port["name"] for port in container.get("ports", [])} | {7079}
            for probe in ("livenessProbe", "readinessProbe"):
                (check,) = container[probe].keys() & {"httpGet", "tcpSocket"}
                assert container[probe][check]["port"] in ports, name
        if "connector" in name or ("-job-" in name and name.startswith("Deployment/")):
            (container,) = pod["spec"]["containers"]
            assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
            assert container["startupProbe"]["httpGet"]["path"] == "/livez"


def test_only_drivers_with_executors_have_a_token_of_kubernetes(rendered: list[Manifest]) -> None:
    has_executors = bool(of_kind(rendered, "Role"))
    for account in of_kind(rendered, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    for name, pod in pods(rendered):
        is_driver = has_executors and name.startswith("Deployment/") and "-job-" in name
        assert pod["spec"]["automountServiceAccountToken"] is is_driver, name
        assert pod["spec"]["enableServiceLinks"] is False
    for role in of_kind(rendered, "Role"):
        resources = {resource for rule in role["rules"] for resource in rule["resources"]}
        assert resources == {"pods", "configmaps", "persistentvolumeclaims", "services"}


def test_udp_keeps_its_port_and_the_source_addresses(rendered: list[Manifest]) -> None:
    (connector,) = of_kind(rendered, "StatefulSet")
    name = connector["metadata"]["name"]
    service = named(rendered, "Service", name)["spec"]
    assert (service["type"], service["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
    assert {port["protocol"] for port in service["ports"]} == {"UDP"}
    (quic,) = (port for port in service["ports"] if port["name"] == "quic")
    assert quic["port"] == 4455
    settings = tomllib.loads(named(rendered, "ConfigMap", name)["data"]["culm.toml"])
    assert settings["connector"]["listen"].endswith(":4455")
    (container,) = connector["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["quic"] == 4455
    assert all("nodePort" not in port for port in service["ports"])


def test_no_service_mixes_udp_and_tcp(rendered: list[Manifest]) -> None:
    for service in of_kind(rendered, "Service"):
        assert len({port["protocol"] for port in service["spec"]["ports"]}) == 1


def test_secrets_are_files_and_in_no_config_map(rendered: list[Manifest]) -> None:
    for document in of_kind(rendered, "ConfigMap"):
        for file, text in document["data"].items():
            if file == "culm.toml":
                settings = tomllib.loads(text)
                assert not any(map(is_secret, settings.get("kafka", {})))
                assert "token" not in settings.get("console", {})
    assert not of_kind(rendered, "Secret"), "the chart names existing Secrets"
    for name, pod in pods(rendered):
        secrets = {volume["name"] for volume in pod["spec"]["volumes"] if "secret" in volume}
        for container in containers(pod):
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            for variable, value in plain_variables(container).items():
                if variable.startswith("CULM_KAFKA__"):
                    assert not is_secret(variable.removeprefix("CULM_KAFKA__").lower().replace("_", ".")) or (
                        variable.endswith("_FILE")
                    )
                if variable.endswith("_FILE"):
                    assert mounts[value.rpartition("/")[0]] in secrets, (name, variable)


def test_two_drivers_never_share_a_checkpoint(rendered: list[Manifest]) -> None:
    drivers = [each for each in of_kind(rendered, "Deployment") if "-job-" in each["metadata"]["name"]]
    assert drivers
    for driver in drivers:
        assert driver["spec"]["replicas"] == 1
        assert driver["spec"]["strategy"] == {"type": "Recreate"}
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for driver in drivers
        for volume in driver["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert len(set(claims)) == len(claims)
    for claim in of_kind(rendered, "PersistentVolumeClaim"):
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_topics_are_there_before_everything_else(rendered: list[Manifest]) -> None:
    for job in of_kind(rendered, "Job"):
        assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        weight = int(job["metadata"]["annotations"]["helm.sh/hook-weight"])
        name = job["metadata"]["name"]
        for kind in ("ConfigMap", "ServiceAccount", "NetworkPolicy"):
            annotations = named(rendered, kind, name)["metadata"]["annotations"]
            assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
            assert int(annotations["helm.sh/hook-weight"]) < weight


def test_prometheus_sees_the_labels_of_dashboards_and_alerts() -> None:
    monitors = of_kind(manifests("all"), "PodMonitor")
    labels = set()
    for monitor in monitors:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (rule,) = (rule for rule in endpoint["relabelings"] if rule["targetLabel"] == "job")
        labels.add(rule["replacement"])
    assert labels == {"culm-connector", "culm-jobs"}
