"""The JavaScript libraries of IPLD and UCAN beside ours: installed once, and run by node.

They (Apache-2.0 or MIT) are not part of this repository; their versions are those of tests/dag_npm.
CULM_DAG_NPM names a folder with a `node_modules`; without it, npm installs them into the user's cache once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from bench.harness import say

VARIABLE = "CULM_DAG_NPM"
_DRIVER = Path(__file__).with_name("dag_npm.mjs")
_PINS = Path(__file__).parents[1] / "tests" / "dag_npm"
_TIMEOUT_S = 600


@cache
def libraries() -> Path | None:
    """Return the folder with the libraries; None, with a message, if node or the libraries are missing."""
    if shutil.which("node") is None:
        say("  node is not here: the JavaScript libraries are left out")
        return None
    named = os.environ.get(VARIABLE)
    if named == "off":
        return None
    if named:
        return Path(named).resolve(strict=True)
    lock = (_PINS / "package-lock.json").read_bytes()
    folder = platformdirs.user_cache_path("culm") / "dag_npm_bench" / hashlib.sha256(lock).hexdigest()[:12]
    if not (folder / "node_modules").exists() and not _installed(folder):
        say("  the JavaScript libraries are not here and npm does not bring them: they are left out")
        return None
    return folder


def _installed(folder: Path) -> bool:
    if shutil.which("npm") is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy2(_PINS / name, folder)
    say(f"  npm installs the JavaScript libraries into {folder}")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_TIMEOUT_S, check=False)
    return done.returncode == 0


def asked(folder: Path, do: str, **arguments: Any) -> dict[str, float]:
    """Return rates per second, measured in a separate process with a fresh engine."""
    # An ECMAScript module finds packages only in its own folder.
    shutil.copy2(_DRIVER, folder)
    done = subprocess.run(
        ["node", str(folder / _DRIVER.name)],
        input=json.dumps({"do": do, **arguments}),
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer
