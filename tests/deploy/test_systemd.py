"""The units for systemd: what systemd says about them, and what Culm says about what they run."""

from __future__ import annotations

import os
import shutil
import stat
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from culm_connectors.settings import DrainSettings
from culm_infra.cli.kit.output import EXIT_FAILED, EXIT_TRY_AGAIN, EXIT_USAGE
from culm_topics.catalogue.jobs import groups
from tests.deploy.command_lines import assert_culm_accepts, assert_settings_are_known
from tests.deploy.tools import ROOT, run, system_tool

FOLDER = ROOT / "infra" / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
DROP_INS = sorted(path.name for path in (FOLDER / "examples").glob("*.conf"))
INSTANCE = "all"
MAX_EXPOSURE = 15
"""Largest exposure that `systemd-analyze security` may find, of 100; its own verdict "OK" ends at 20."""


def instance_of(unit: str) -> str:
    """The name of a unit, or of one instance of a template."""
    return unit.replace("@.", f"@{INSTANCE}.")


def entries(unit: str) -> dict[str, list[str]]:
    """The values of each key of a unit, with the instance's name filled in."""
    values = defaultdict(list)
    for line in (FOLDER / unit).read_text().splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            values[key].append(value.replace("%i", INSTANCE).replace("%d", "/run/credentials"))
    return values


def environment(unit: str) -> dict[str, str]:
    """The `CULM_…` variables of a unit."""
    pairs = [pair.split("=", 1) for value in entries(unit)["Environment"] for pair in value.split()]
    return {name: value for name, value in pairs if name.startswith("CULM_")}


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A root folder with systemd's own units, those of Culm, and the programs that they start."""
    units = tmp_path / "usr" / "lib" / "systemd" / "system"
    own = Path("/usr/lib/systemd/system")
    if not own.is_dir():
        pytest.skip("this machine has no units of systemd")
    shutil.copytree(own, units, symlinks=True)
    for program in ("opt/culm/bin/culm", "bin/sh"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    for source, target in (("*.service", "etc/systemd/system"), ("*/culm.conf", "etc")):
        for file in FOLDER.glob(source):
            place = tmp_path / target / (file.parent.name if file.suffix == ".conf" else "") / file.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    for unit in UNITS:
        place = tmp_path / "etc" / "systemd" / "system" / f"{instance_of(unit)}.d"
        place.mkdir()
        for name in DROP_INS:
            shutil.copyfile(FOLDER / "examples" / name, place / name)
    return tmp_path


@pytest.mark.deploy
def test_systemd_has_nothing_to_say_about_the_units(system: Path) -> None:
    # The exit status is 0 for unknown keys, too.
    done = run(
        system_tool("systemd-analyze"), "verify", f"--root={system}", *(instance_of(unit) for unit in UNITS)
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.deploy
def test_an_unknown_key_is_output_of_systemd(system: Path) -> None:
    unit = system / "etc" / "systemd" / "system" / "culm-connector.service"
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHomes="))
    done = run(system_tool("systemd-analyze"), "verify", f"--root={system}", unit.name)
    assert "ProtectHomes" in done.stderr


@pytest.mark.deploy
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_hardly_exposed(unit: str, tmp_path: Path) -> None:
    file = tmp_path / instance_of(unit)
    shutil.copyfile(FOLDER / unit, file)
    done = run(
        *(system_tool("systemd-analyze"), "security", "--offline=true"),
        *(f"--threshold={MAX_EXPOSURE}", "--no-pager", file),
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.deploy
@pytest.mark.skipif(os.geteuid() != 0, reason="owners of folders are set by root alone")
def test_the_user_and_the_folders_are_those_of_the_units(system: Path) -> None:
    for program, arguments in (
        ("systemd-sysusers", []),
        ("systemd-tmpfiles", ["--create", "--prefix=/etc/culm"]),
    ):
        done = run(system_tool(program), f"--root={system}", *arguments, "culm.conf")
        assert done.returncode == 0, done.stderr
    assert "culm:x:10001:10001:Culm:/var/lib/culm:" in (system / "etc" / "passwd").read_text()
    credentials = (system / "etc" / "culm" / "credentials").stat()
    assert (credentials.st_uid, stat.S_IMODE(credentials.st_mode)) == (0, 0o700)
    settings = (system / "etc" / "culm").stat()
    assert (settings.st_gid, stat.S_IMODE(settings.st_mode)) == (10001, 0o750)


@pytest.mark.parametrize("unit", UNITS)
def test_culm_accepts_what_a_unit_runs(unit: str) -> None:
    (command,) = entries(unit)["ExecStart"]
    assert_culm_accepts(command.split())
    variables = environment(unit)
    assert variables.pop("CULM_CONFIG") == "/etc/culm/culm.toml"
    assert_settings_are_known(variables)


@pytest.mark.parametrize("group", groups())
def test_every_group_of_jobs_is_an_instance_of_the_template(group: str) -> None:
    assert_culm_accepts(["culm", "job", "run", group])
    example = tomllib.loads((FOLDER / "examples" / "culm.toml").read_text())
    assert group in example["job"]["metrics_port"]


def test_the_example_of_the_settings_is_in_order(tmp_path: Path) -> None:
    example = FOLDER / "examples" / "culm.toml"
    assert_culm_accepts(["culm", "settings", "check", str(example)], {"CULM_STACK__DIRECTORY": str(tmp_path)})
    # The lines that are examples, too.
    uncommented = tmp_path / "culm.toml"
    uncommented.write_text(example.read_text().replace('# "', '"').replace("# [kafka]", "[kafka]"))
    assert_culm_accepts(
        ["culm", "settings", "check", str(uncommented)], {"CULM_STACK__DIRECTORY": str(tmp_path)}
    )


@pytest.mark.parametrize("name", DROP_INS)
def test_a_secret_is_a_credential(name: str, tmp_path: Path) -> None:
    ((variable, path),) = environment(f"examples/{name}").items()
    (loaded,) = entries(f"examples/{name}")["LoadCredential"]
    assert Path(path).name == loaded.split(":")[0]
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-these-tests\n")
    assert_settings_are_known({variable: str(secret)})


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_starts_again_only_where_that_may_help(unit: str) -> None:
    values = entries(unit)
    assert values["Restart"] == ["on-failure"]
    prevented = {int(status) for status in values["RestartPreventExitStatus"][0].split()}
    assert prevented == {EXIT_FAILED, EXIT_USAGE}
    assert EXIT_TRY_AGAIN not in prevented


def test_a_connector_has_time_to_give_kafka_what_it_received() -> None:
    # docs/operating.md, "Stopping and restarting": at most about half a minute after the doors are shut.
    (timeout_s,) = entries("culm-connector.service")["TimeoutStopSec"]
    assert int(timeout_s) >= DrainSettings().unready_s + 60


def test_every_unit_has_the_same_sandbox_but_for_the_memory_of_java() -> None:
    sandboxes = {
        (FOLDER / unit).read_text().partition("# Files: ")[2].partition("SystemCallErrorNumber=")[0]
        for unit in UNITS
    }
    (sandbox,) = sandboxes
    assert "ProtectSystem=strict" in sandbox


def test_memory_is_never_both_written_and_executed_except_by_java() -> None:
    allowed = {unit for unit in UNITS if entries(unit)["MemoryDenyWriteExecute"] != ["yes"]}
    assert allowed == {"culm-job@.service"}
