"""The compose file: what the reference implementation of its format and Culm say about it."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from culm_topics.catalogue.jobs import groups
from tests.deploy.command_lines import assert_culm_accepts, assert_settings_are_known
from tests.deploy.tools import ROOT, go_tool, promtool, run

FOLDER = ROOT / "infra" / "deploy" / "compose"
FILE = FOLDER / "compose.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("culm-"))


def with_defaults(text: str) -> str:
    """A text with the default of each variable."""
    return re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", text)


def read_by_compose(file: Path) -> CompletedProcess[str]:
    """What compose-go makes of a file: everything filled in, or an error."""
    return run(go_tool("github.com/compose-spec/compose-go/v2/cmd", "v2.16.2"), file, folder=FOLDER)


@pytest.mark.deploy
@pytest.mark.timeout(1_200)
def test_compose_reads_every_service() -> None:
    done = read_by_compose(FILE)
    assert (done.returncode, done.stderr) == (0, "")
    read = yaml.safe_load(done.stdout)
    assert read["services"].keys() == SERVICES.keys()
    for name in OURS:
        build = read["services"][name]["build"]
        assert (Path(build["context"]) / build["dockerfile"]).is_file()


@pytest.mark.deploy
@pytest.mark.timeout(1_200)
def test_compose_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(FILE.read_text().replace("stop_grace_period", "stop_grace"))
    assert "stop_grace" in read_by_compose(file).stderr


@pytest.mark.parametrize("name", OURS)
def test_culm_accepts_what_a_service_runs(name: str) -> None:
    service = SERVICES[name]
    assert_culm_accepts(["culm", *service["command"]])
    variables = {key: with_defaults(str(value)) for key, value in service["environment"].items()}
    assert_settings_are_known(variables)


def test_every_group_of_jobs_is_a_service() -> None:
    commands = [service["command"] for service in SERVICES.values() if service["image"] == "culm-jobs"]
    assert sorted(commands) == sorted(["job", "run", group] for group in groups())


@pytest.mark.parametrize("name", OURS)
def test_a_service_has_no_right_that_it_does_not_need(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_mounted_file_and_every_volume_exists(name: str) -> None:
    for mount in SERVICES[name].get("volumes", ()):
        source = mount.split(":")[0]
        if source.startswith("."):
            assert (FOLDER / source).exists(), source
        else:
            assert source in DOCUMENT["volumes"]


def test_services_keep_data_in_volumes_of_their_own() -> None:
    mounts = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", ())]
    volumes = [source for source in mounts if not source.startswith(".")]
    assert sorted(volumes) == sorted(DOCUMENT["volumes"])


def test_the_example_of_the_environment_has_every_variable_with_its_default() -> None:
    shown = dict(
        line.split("=", 1)
        for line in (FOLDER / ".env.example").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert shown.pop("COMPOSE_PROFILES") == ""
    assert dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", FILE.read_text())) == shown
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", ())}
    comments = " ".join((FOLDER / ".env.example").read_text().split("COMPOSE_PROFILES")[0].split())
    assert all(profile in comments for profile in profiles)


@pytest.mark.deploy
def test_prometheus_reads_its_file(tmp_path: Path) -> None:
    for name, source in (
        ("prometheus.yaml", FOLDER / "prometheus.yaml"),
        ("rules.yaml", FOLDER.parent / "prometheus" / "rules.yaml"),
    ):
        (tmp_path / name).write_bytes(source.read_bytes())
    done = run(promtool(), "check", "config", tmp_path / "prometheus.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_looks_for_every_service_with_metrics() -> None:
    configured = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]
    names = {
        config["job_name"]: names["names"] for config in configured for names in config["dns_sd_configs"]
    }
    for job, image in (("culm-connector", "culm-connector"), ("culm-jobs", "culm-jobs")):
        assert names[job] == [name for name, service in SERVICES.items() if service["image"] == image]


def test_grafana_reads_the_prometheus_of_the_stack_and_the_provisioned_folder() -> None:
    ours = yaml.safe_load((FOLDER / "grafana-datasource.yaml").read_text())
    provisioning = FOLDER.parent / "grafana" / "provisioning"
    theirs = yaml.safe_load((provisioning / "datasources" / "culm.yaml").read_text())
    theirs["datasources"][0]["url"] = "http://prometheus:9090"
    assert ours == theirs
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "culm.yaml").read_text())["providers"]
    assert f"../grafana/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
