"""Loaded by every Python process of a walk: records which of Culm's functions are entered meanwhile.

`CULM_WALK` names a folder. Its file `phase` has one byte, shared by all processes: 0 means that nothing is
recorded, other values are the number of the phase, with which each line begins. The time, the thread, the
function, and Culm's function that called it follow.
"""

import mmap
import os
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_FOLDER = os.environ.get("CULM_WALK")
_PACKAGES = ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra")
_NOBODY = "\t\t0"


def _install(folder: Path) -> None:
    with (folder / "phase").open("r+b") as file:
        phase = mmap.mmap(file.fileno(), 1)
    locations: dict[Any, str] = {}
    outputs: dict[int, int] = {}

    def output() -> int:
        # Spark forks its workers: each process has its own file.
        pid = os.getpid()
        if pid not in outputs:
            outputs[pid] = os.open(folder / f"{pid}.walk", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return outputs[pid]

    def location_of(code: CodeType) -> str:
        location = locations.get(code)
        if location is None:
            name = next((package for package in _PACKAGES if f"/{package}/" in code.co_filename), None)
            location = ""
            if name is not None:
                file = code.co_filename[code.co_filename.rindex(f"/{name}/") + 1 :]
                location = f"{file}\t{code.co_qualname}\t{code.co_firstlineno}"
            locations[code] = location
        return location

    def entered(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and phase[0] and (location := location_of(frame.f_code)):
            caller = location_of(frame.f_back.f_code) if frame.f_back is not None else ""
            thread = threading.get_ident()
            line = f"{phase[0]}\t{time.monotonic_ns()}\t{thread}\t{location}\t{caller or _NOBODY}\n"
            os.write(output(), line.encode())

    threading.setprofile(entered)
    sys.setprofile(entered)


if _FOLDER:
    _install(Path(_FOLDER))
