"""The JavaScript libraries of IPLD and UCAN as a process: installed once, spoken to a line at a time.

Driver and versions are in `tests/dag_npm`. `CULM_DAG_NPM=off` skips what needs them.
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
from pathlib import Path
from typing import Any

import platformdirs
import pytest

SWITCH = "CULM_DAG_NPM"
INSTALL_TIMEOUT_S = 240
_SOURCES = Path(__file__).parents[3] / "dag_npm"
_PINS = ("package.json", "package-lock.json")
_DRIVER = "driver.mjs"
_INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def _digest(names: tuple[str, ...]) -> str:
    found = hashlib.sha256()
    for name in names:
        found.update((_SOURCES / name).read_bytes())
    return found.hexdigest()[:12]


def packages() -> Path:
    """The folder with the installed packages; installs them where they are missing: seconds, once."""
    cache = platformdirs.user_cache_path("culm") / "dag_npm"
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
            pytest.skip(f"no JavaScript libraries: npm took longer than {INSTALL_TIMEOUT_S} s")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no JavaScript libraries: npm cannot install them: {error.stderr.strip()[-300:]}")
        # Renamed into its place whole, so that nobody finds a part of it; another process may be first.
        with contextlib.suppress(OSError):
            made.rename(target)
    return target


def program() -> Path:
    """The driver, beside its packages; skips the test, with the reason, where there is none to be had."""
    if os.environ.get(SWITCH) == "off":
        pytest.skip(f"{SWITCH}=off")
    if not _SOURCES.exists():
        pytest.skip("no JavaScript libraries: their driver, tests/dag_npm, is in the repository alone")
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            pytest.skip(f"no JavaScript libraries: {name} is not installed")
    driver = packages() / f"{_digest((_DRIVER,))}.mjs"
    if not driver.exists():
        staged = driver.with_suffix(f".{os.getpid()}")
        shutil.copy2(_SOURCES / _DRIVER, staged)
        staged.rename(driver)
    return driver


class JsLibraries:
    """The running driver."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What the libraries answer: `ok` or `error`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def ok(self, do: str, **arguments: Any) -> dict[str, Any]:
        """An answer that is no error."""
        answer = self.ask(do, **arguments)
        assert "ok" in answer, answer
        found: dict[str, Any] = answer["ok"]
        return found


@contextlib.contextmanager
def js_libraries() -> Iterator[JsLibraries]:
    """The driver, for a while."""
    with subprocess.Popen(
        ["node", str(program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield JsLibraries(process)
        finally:
            process.kill()
