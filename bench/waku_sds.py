"""@waku/sds, the JavaScript implementation of SDS, beside ours: run by node.

The package (MIT or Apache-2.0) is not part of this repository. CULM_WAKU_SDS names its folder; without it,
npm installs this version into waku-sds in the user's cache once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from bench.harness import say

VARIABLE = "CULM_WAKU_SDS"
PACKAGE = "@waku/sds@0.0.8"
_DRIVER = Path(__file__).with_name("waku_sds.mjs")
_TIMEOUT_S = 900


@cache
def implementation() -> Path | None:
    """Return the package's folder; None, with a message, if node or the package is missing."""
    if shutil.which("node") is None:
        say("  node is not here: @waku/sds is left out")
        return None
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).resolve(strict=True)
    folder = platformdirs.user_cache_path("culm") / "waku-sds"
    package = folder / "node_modules" / "@waku" / "sds"
    if not package.exists() and not _installed(folder):
        say("  @waku/sds is not here and npm does not bring it: it is left out")
        return None
    return package


def _installed(folder: Path) -> bool:
    if shutil.which("npm") is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    say(f"  npm installs {PACKAGE} into {folder}")
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", PACKAGE]
    return subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False).returncode == 0


def asked(package: Path, do: str, **arguments: Any) -> dict[str, Any]:
    """Return the driver's answer; it runs in a separate process, with a fresh engine."""
    command = ["node", str(_DRIVER), str(package)]
    request = json.dumps({"do": do, **arguments})
    done = subprocess.run(
        command, input=request, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
