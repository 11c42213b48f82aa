"""An environment for programs that use this machine as a new user would."""

from __future__ import annotations

import os
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
