"""Commands that a new user pastes into a terminal, with all data of `culm` in one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def own_machine(folder: Path) -> dict[str, str]:
    """An environment whose stack, keys, logs and settings lie in a folder; jars stay where they are."""
    homes = {f"XDG_{name}_HOME": str(folder / "home" / name.lower()) for name in ("DATA", "STATE", "CONFIG")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CULM_")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quick = {
        "CULM_STACK__QUICK_START": "true",
        "CULM_JOB__QUICK_START": "true",
        "CULM_JOB__MASTER": "local[2]",
    }
    return {**kept, **homes, **quick, "PATH": programs, "NO_COLOR": "1", "COLUMNS": "120"}


def paste(script: str, folder: Path, home: Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in a folder, until a command of it fails; the data of `culm` is below `home`."""
    return subprocess.run(
        ["timeout", "--kill-after", "30", str(limit_s), "bash", "-eu", "-o", "pipefail"],
        # From its standard input, as a terminal gets it: a command that reads there would take what follows.
        input=script,
        cwd=folder,
        env=own_machine(home),
        capture_output=True,
        text=True,
        check=False,
    )
