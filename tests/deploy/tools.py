"""External programs of these tests, fetched once into `build/tools`.

A program that cannot be had on this machine skips the test with the reason.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from culm_infra.stack.lock import file_lock

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "tools"
_FETCH_TIMEOUT_S = 900.0


class MissingToolError(Exception):
    """A program that cannot be had here, with the reason."""


def go_tool(package: str, version: str) -> Path:
    """Return a program of a Go module, built at the first use. Skips the test if it cannot be built."""
    try:
        return _built(package, version)
    except MissingToolError as error:
        pytest.skip(str(error))


def promtool() -> Path:
    """Return promtool of Debian's package `prometheus`, which is unpacked and never installed."""
    return debian_tool("prometheus", "usr/bin/promtool")


def debian_tool(package: str, path: str) -> Path:
    """Return a program of a Debian package, unpacked at the first use. Skips the test if it is not to be had.

    Its maintainer scripts do not run, so no service starts.
    """
    try:
        return _unpacked(package) / path
    except MissingToolError as error:
        pytest.skip(str(error))


def python_tool(distribution: str, name: str) -> Path:
    """Return a program that a distribution of the extra `deploy` installs."""
    try:
        files = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed: pip install 'culm[deploy]'")
    (path,) = (Path(str(file.locate())) for file in files if file.name == name and "bin" in file.parts)
    return path.resolve()


def system_tool(name: str) -> Path:
    """Return a program of this machine. Skips the test if it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return Path(path)


def run(
    *command: object,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its status and output; `environment` is added to the present one."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@functools.cache
def _built(package: str, version: str) -> Path:
    name = f"{package.replace('/', '_')}@{version}"
    folder = TOOLS / "go" / name
    with file_lock(TOOLS / f"{name}.lock", timeout_s=_FETCH_TIMEOUT_S):
        if not folder.is_dir():
            if shutil.which("go") is None:
                raise MissingToolError(f"{package} is built with go, which is not installed")
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                target = Path(work) / "bin"
                _fetch(package, ["go", "install", f"{package}@{version}"], {"GOBIN": str(target)})
                target.rename(folder)
    (program,) = folder.iterdir()
    return program


@functools.cache
def _unpacked(package: str) -> Path:
    folder = TOOLS / "debian" / package
    with file_lock(TOOLS / f"{package}.lock", timeout_s=_FETCH_TIMEOUT_S):
        if not folder.is_dir():
            if shutil.which("apt-get") is None:
                raise MissingToolError(
                    f"{package} comes from Debian's packages, and apt-get is not installed"
                )
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                download = ["apt-get", "download", "-o", "APT::Sandbox::User=root", package]
                try:
                    _fetch(package, download, {}, Path(work))
                except MissingToolError:
                    # The lists of packages may be old or missing.
                    _fetch(package, ["apt-get", "update", "--quiet"], {})
                    _fetch(package, download, {}, Path(work))
                (archive,) = Path(work).glob("*.deb")
                target = Path(work) / "root"
                _fetch(package, ["dpkg", "--extract", str(archive), str(target)], {})
                target.rename(folder)
    return folder


def _fetch(what: str, command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> None:
    try:
        done = run(*command, environment=environment, folder=folder, timeout_s=_FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise MissingToolError(f"{what} did not arrive within {_FETCH_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise MissingToolError(f"{what}: `{' '.join(command)}` failed: {lines[-1] if lines else 'no output'}")
