"""@waku/sds, the JavaScript implementation of SDS, as a process: installed once, spoken to a line at a time.

Its driver and the versions that are installed are in `tests/waku_sds`. `CULM_WAKU_SDS=off` skips what needs
it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import pytest

SWITCH = "CULM_WAKU_SDS"
INSTALL_TIMEOUT_S = 240
_SOURCES = Path(__file__).parents[1] / "waku_sds"
_PINS = ("package.json", "package-lock.json")
_PROGRAMS = ("driver.mjs", "message_json.mjs")
_INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
_DEADLINE_S = 30.0


def _digest(names: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for name in names:
        found.update((_SOURCES / name).read_bytes())
    return found.hexdigest()[:12]


def packages() -> Path:
    """The folder with the installed packages; installs them where they are missing: seconds, once."""
    cache = platformdirs.user_cache_path("culm") / "waku_sds"
    target = cache / _digest(_PINS)
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / "packages"
        made.mkdir()
        for name in _PINS:
            shutil.copy2(_SOURCES / name, made)
        try:
            subprocess.run(
                _INSTALL, cwd=made, timeout=INSTALL_TIMEOUT_S, check=True, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"no @waku/sds: npm took longer than {INSTALL_TIMEOUT_S} s")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no @waku/sds: npm cannot install it: {error.stderr.strip()[-300:]}")
        # Renamed into its place whole, so that nobody finds a part of it; another process may be first.
        with contextlib.suppress(OSError):
            made.rename(target)
    return target


def program() -> Path:
    """The driver, beside its packages; skips the test, with the reason, where there is none to be had."""
    if os.environ.get(SWITCH) == "off":
        pytest.skip(f"{SWITCH}=off")
    if not _SOURCES.exists():
        pytest.skip("no @waku/sds: its driver, tests/waku_sds, is in the repository alone")
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            pytest.skip(f"no @waku/sds: {name} is not installed")
    folder = packages() / _digest(_PROGRAMS)
    folder.mkdir(exist_ok=True)
    for name in _PROGRAMS:
        if not (folder / name).exists():
            staged = folder / f"{name}.{os.getpid()}"
            shutil.copy2(_SOURCES / name, staged)
            staged.rename(folder / name)
    return folder / _PROGRAMS[0]


@dataclass
class WakuSds:
    """The running driver."""

    process: subprocess.Popen[str]

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What a request is answered with. Raises AssertionError with the driver's error."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        answer: dict[str, Any] = json.loads(line)
        assert "ok" in answer, answer
        found: dict[str, Any] = answer["ok"]
        return found


@contextlib.contextmanager
def running() -> Iterator[WakuSds]:
    """The driver, until the block ends."""
    process = subprocess.Popen(
        ["node", str(program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield WakuSds(process)
    finally:
        process.stdin.close()
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
