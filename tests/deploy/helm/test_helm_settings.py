"""The settings files and command lines in the rendered chart are those that `culm` accepts."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from culm_connectors.edge.keyfile import load_key
from tests.deploy.command_lines import assert_culm_accepts, culm
from tests.deploy.helm.charts import (
    CHART,
    VALUES,
    Manifest,
    containers,
    inside,
    manifests,
    named,
    of_kind,
    plain_variables,
    pods,
)
from tests.support.connectors.channels import Certificates

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1_200)]


@pytest.fixture(params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[Manifest]:
    return manifests(str(request.param))


def test_every_command_line_is_one_of_culm(rendered: list[Manifest]) -> None:
    accepted = 0
    for _, pod in pods(rendered):
        for container in containers(pod):
            lifecycle = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
            for command in (container["command"] + container.get("args", []), lifecycle):
                if command and command[0] == "culm":
                    assert_culm_accepts(command)
                    accepted += 1
    assert accepted >= 2


def test_culm_accepts_every_settings_file(rendered: list[Manifest], tmp_path: Path) -> None:
    for name, pod in pods(rendered):
        (container,) = pod["spec"]["containers"]
        if container["command"] != ["culm"]:
            continue
        folder = tmp_path / name.replace("/", "-")
        _mount(pod, rendered, folder)
        variables = {each: inside(folder, value) for each, value in plain_variables(container).items()}
        done = culm(("settings", "check"), variables)
        assert done.returncode == 0, f"{name}\n{done.stdout}{done.stderr}"
        assert "culm.toml: the settings are in order" in done.stderr


def _mount(pod: Manifest, rendered: list[Manifest], folder: Path) -> None:
    """Write what the pod's volumes hold below a folder."""
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    for mount in pod["spec"]["containers"][0]["volumeMounts"]:
        volume = volumes.get(mount["name"], {})
        target = folder / mount["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            _write_secret(target, volume["secret"])
        elif "configMap" in volume:
            for file, text in _config_map(rendered, volume["configMap"]["name"]).items():
                (target / file).write_text(inside(folder, text))


def _config_map(rendered: list[Manifest], name: str) -> dict[str, str]:
    if name == "culm-peers":  # exists before the release
        return {"peers.toml": "[peers]\n"}
    if name == "bamboo-policy":
        return {}
    data: dict[str, str] = named(rendered, "ConfigMap", name)["data"]
    return data


def _write_secret(folder: Path, secret: dict[str, Any]) -> None:
    made = Certificates(folder)
    files = {"tls.crt": made.server.certificate, "tls.key": made.server.private_key, "ca.crt": made.ca}
    for item in secret.get("items", [{"path": "tls.crt"}, {"path": "tls.key"}]):
        file = files.get(item["path"])
        (folder / item["path"]).write_text("not-so-secret-here" if file is None else file.read_text())


def test_settings_reach_the_programs_that_read_them() -> None:
    rendered = manifests("all")
    values = yaml.safe_load((CHART / "values-all.yaml").read_text())["settings"]
    connector = tomllib.loads(named(rendered, "ConfigMap", "culm-reef-connector")["data"]["culm.toml"])
    assert _is_part(values["connector"], connector["connector"])
    assert connector["connector"]["chotki"]["listen"] == [
        "quic://[::]:4455",
        "tcp://[::]:4321",
        "tls://[::]:4322",
    ]
    assert connector["connector"]["dag"]["http"]["host"] == "::"
    assert "job" not in connector
    job = tomllib.loads(named(rendered, "ConfigMap", "culm-reef-job-sds")["data"]["culm.toml"])
    assert _is_part(values["job"], job["job"])
    assert "connector" not in job
    assert job["job"]["checkpoints"] == "s3a://reef/checkpoints"
    assert job["job"]["driver_memory_mb"] == 2048
    for settings in (connector, job):
        assert _is_part({name: values[name] for name in ("bootstrap", "prefix", "partitions")}, settings)
        assert _is_part(values["topic_config"], settings["topic_config"])
        assert settings["kafka"]["ssl.ca.location"] == "/etc/culm/kafka-ca/ca.crt"
    console = tomllib.loads(named(rendered, "ConfigMap", "culm-reef-console")["data"]["culm.toml"])
    assert console["console"]["targets"] == [
        "http://culm-reef-connector-0.culm-reef-connector-pods:9100",
        "http://culm-reef-connector-1.culm-reef-connector-pods:9100",
        "http://culm-reef-job-all:9101",
        "http://culm-reef-job-chotki:9101",
        "http://culm-reef-job-coverage:9101",
        "http://culm-reef-job-documents:9101",
        "http://culm-reef-job-sds:9101",
    ]


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(name in whole and _is_part(value, whole[name]) for name, value in part.items())
    return bool(part == whole)


def test_targets_of_the_console_are_names_of_services() -> None:
    rendered = manifests("all")
    settings = tomllib.loads(named(rendered, "ConfigMap", "culm-reef-console")["data"]["culm.toml"])
    services = {service["metadata"]["name"]: service["spec"] for service in of_kind(rendered, "Service")}
    for target in settings["console"]["targets"]:
        host, _, port = target.removeprefix("http://").partition(":")
        service = services[host.rpartition(".")[2]]
        assert service["clusterIP"] == "None"
        assert int(port) in {each["port"] for each in service["ports"]}


def test_a_pod_takes_its_own_key_from_the_secret(tmp_path: Path) -> None:
    (connector,) = of_kind(manifests("production"), "StatefulSet")
    (start,) = connector["spec"]["template"]["spec"]["initContainers"]
    (mount,) = (each for each in start["volumeMounts"] if each["name"] == "keys")
    assert (mount["mountPath"], mount["subPathExpr"]) == ("/run/secrets/culm/key", "$(POD_NAME)")
    command = [*start["command"], inside(tmp_path, start["args"][0])]
    (tmp_path / "run/secrets/culm").mkdir(parents=True)
    (tmp_path / "var/lib/culm").mkdir(parents=True)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env={"PATH": os.environ["PATH"], "POD_NAME": "culm-connector-7"},
            capture_output=True,
            text=True,
            check=False,
        )

    missing = run()
    assert missing.returncode == 1
    assert "has no entry culm-connector-7: add this connector's key" in missing.stderr
    for digits in ("01" * 32, "02" * 32):  # the second start has another key in the Secret
        (tmp_path / "run/secrets/culm/key").write_text(digits)
        assert run().returncode == 0
        assert load_key(tmp_path / "var/lib/culm/connector").private_key.hex() == digits
