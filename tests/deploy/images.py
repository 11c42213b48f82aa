"""Images built and run without a daemon: a base by mmdebstrap, images by buildah, containers by crun.

All three are packages of Debian and need root. They keep what they store in `build/tools/images`: nothing
else on the machine changes, and a second build is quick.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from culm_infra.stack.lock import file_lock
from tests.deploy.tools import ROOT, TOOLS, run, system_tool

CONTAINERFILES = ROOT / "infra" / "deploy" / "containers"
USER_ID = 10001
_STORAGE = TOOLS / "images"
_BASE = "localhost/culm-base"
_PACKAGES = "python3,python3-venv,ca-certificates"
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_BUILD_TIMEOUT_S = 1_800.0


def buildah(*arguments: object, timeout_s: float = 300) -> str:
    """Run buildah with the storage of these tests and return its output; a failure fails the test."""
    program = system_tool("buildah")
    storage = ("--root", _STORAGE / "root", "--runroot", _STORAGE / "run", "--storage-driver", "vfs")
    environment = {"BUILDAH_ISOLATION": "chroot"}
    done = run(program, *storage, *arguments, environment=environment, timeout_s=timeout_s)
    assert done.returncode == 0, (
        f"buildah {' '.join(map(str, arguments))}\n{done.stdout[-4_000:]}{done.stderr[-4_000:]}"
    )
    return done.stdout.strip()


def built_image(name: str) -> str:
    """Build one of the images on the local base and return its name. Skips without root or the programs."""
    if os.geteuid() != 0:
        pytest.skip("images are built as root here")
    tag = f"localhost/culm-{name}"
    with file_lock(_STORAGE.parent / "images.lock", timeout_s=2 * _BUILD_TIMEOUT_S):
        _make_base()
        buildah(
            *("build", "--layers", "--format", "docker", "--pull-never"),
            *("--build-arg", f"BASE={_BASE}", "--tag", tag),
            *("--file", CONTAINERFILES / f"{name}.Containerfile", ROOT),
            timeout_s=_BUILD_TIMEOUT_S,
        )
    return tag


def _make_base() -> None:
    """Make the base image if it is missing: a minimal Debian with Python and this machine's certificates."""
    if _BASE in buildah("images", "--format", "{{.Name}}").split():
        return
    archive = _STORAGE / "base.tar"
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )["VERSION_CODENAME"]
    done = run(
        *(system_tool("mmdebstrap"), "--variant=minbase", f"--include={_PACKAGES}"),
        # Where the network has a certificate authority of its own, the build needs it, too.
        f"--customize-hook=copy-in {_CERTIFICATES} {Path(_CERTIFICATES).parent}",
        *(release, archive),
        timeout_s=_BUILD_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    container = buildah("from", "scratch")
    buildah("add", container, archive, "/")
    buildah("commit", container, _BASE)
    buildah("rm", container)
    archive.unlink()


def crun(*arguments: object) -> list[object]:
    """Return the command line of crun, which refuses to run where both versions of cgroups are mounted.

    There it runs without the second one, in a mount namespace of its own; the containers use neither.
    """
    program = (system_tool("crun"), "--cgroup-manager=disabled", *arguments)
    second = Path("/sys/fs/cgroup/unified")
    if not second.is_dir():
        return [*program]
    return ["unshare", "--mount", "sh", "-c", f'umount {second} && exec "$@"', "sh", *program]


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs or has ended."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container."""
        return run(*crun("exec", "--user", f"{USER_ID}:{USER_ID}", self.name, *command))

    def signal(self, name: str) -> None:
        """Send a signal to the container's process."""
        assert run(*crun("kill", self.name, name)).returncode == 0


@contextmanager
def running(
    image: str,
    folder: Path,
    *,
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Container]:
    """Run an image on a read-only root without capabilities, in the network of this machine.

    The folder gets the container's volume and its output. The container is killed at the end.
    """
    container = buildah("from", "--pull-never", image)
    try:
        described = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
        bundle = folder / "bundle"
        volume = folder / "volume"
        for each in (bundle, volume):
            each.mkdir()
        os.chown(volume, USER_ID, USER_ID)
        configuration = _configuration(described, buildah("mount", container), volume)
        configuration["process"]["args"] = [*described["Entrypoint"], *(command or described["Cmd"])]
        configuration["process"]["env"] += [f"{name}={value}" for name, value in (environment or {}).items()]
        (bundle / "config.json").write_text(json.dumps(configuration))
        name = f"{folder.name}-{os.getpid()}"
        log = folder / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in crun("run", "--bundle", bundle, name)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield Container(name, process, log)
        finally:
            with suppress(subprocess.TimeoutExpired):
                run(*crun("delete", "--force", name))
            process.wait(timeout=60)
    finally:
        buildah("rm", container)


def _configuration(described: Mapping[str, Any], root: str, volume: Path) -> dict[str, Any]:
    """Return the configuration of a container of the OCI runtime."""
    tmpfs = {"type": "tmpfs", "source": "tmpfs"}
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": USER_ID, "gid": USER_ID},
            "env": list(described["Env"]),
            "cwd": described["WorkingDir"],
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": root, "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", **tmpfs, "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", **tmpfs, "options": ["nosuid", "mode=1777"]},
            {
                "destination": "/var/lib/culm",
                "type": "bind",
                "source": str(volume),
                "options": ["bind", "rw"],
            },
        ],
        # The network is that of this machine: the broker of the tests listens on loopback.
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
    }
