"""The client for browsers of examples/dag-browser: compiled once by the pinned compiler, and run by node.

Skipped, with the reason, where node or npm is missing, or with `CULM_DAG_NPM=off`.
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

from tests.support.process.groups import child

SWITCH = "CULM_DAG_NPM"
CLIENT = Path(__file__).parents[2] / "examples" / "dag-browser"
DRIVERS = Path(__file__).parents[1] / "dag_browser"
TIMEOUT_S = 240

_INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def compiled() -> Path:
    """The folder with the client's modules, compiled strictly: a fault of types fails the test."""
    if os.environ.get(SWITCH) == "off":
        pytest.skip(f"{SWITCH}=off")
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            pytest.skip(f"no client for browsers: {name} is not installed")
    sources = [
        *(CLIENT / name for name in ("package.json", "package-lock.json", "tsconfig.json")),
        *sorted((CLIENT / "src").glob("*.ts")),
    ]
    cache = platformdirs.user_cache_path("culm") / "dag_browser"
    target = cache / _digest(sources)
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    compiler = _compiler(cache)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        made = Path(name) / "built"
        command = ["node", str(compiler), "-p", str(CLIENT), "--outDir", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stdout
        # Node takes a module for one by this.
        (made / "package.json").write_text('{"type": "module"}')
        _put(made, target)
    return target


def _compiler(cache: Path) -> Path:
    pins = [CLIENT / "package.json", CLIENT / "package-lock.json"]
    target = cache / f"compiler-{_digest(pins)}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as name:
            made = Path(name) / "packages"
            made.mkdir()
            for pin in pins:
                shutil.copy2(pin, made)
            try:
                subprocess.run(
                    _INSTALL, cwd=made, timeout=TIMEOUT_S, check=True, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                pytest.skip(f"no compiler of TypeScript: npm took longer than {TIMEOUT_S} s")
            except subprocess.CalledProcessError as error:
                pytest.skip(
                    f"no compiler of TypeScript: npm cannot install it: {error.stderr.strip()[-300:]}"
                )
            _put(made, target)
    return target / "node_modules" / "typescript" / "lib" / "tsc.js"


def _put(made: Path, target: Path) -> None:
    # Renamed into its place whole, so that nobody finds a part of it; another process may be first.
    with contextlib.suppress(OSError):
        made.rename(target)


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class BrowserClient:
    """The client in a process of node's."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What it answers: `ok`, or the code in `refused`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    def ok(self, do: str, **arguments: Any) -> dict[str, Any]:
        """An answer that is no refusal."""
        answer = self.ask(do, **arguments)
        assert "ok" in answer, answer
        fields: dict[str, Any] = answer["ok"]
        return fields


@contextlib.contextmanager
def browser_client() -> Iterator[BrowserClient]:
    """The client, for a while."""
    command = ["node", str(DRIVERS / "driver.mjs"), str(compiled())]
    with child(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield BrowserClient(process)
