"""Loaded by every Python process of a walk: writes down which of Culm's functions are entered meanwhile.

`CULM_WALK` names a folder. Its file `phase` holds one byte, shared by all processes: 0 nothing is recorded,
else the number of the phase that each line begins with.
"""

import mmap
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

_FOLDER = os.environ.get("CULM_WALK")
_PACKAGES = ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra")


def _install(folder: Path) -> None:
    with (folder / "phase").open("r+b") as file:
        phase = mmap.mmap(file.fileno(), 1)
    places: dict[Any, str] = {}
    outputs: dict[int, int] = {}

    def output() -> int:
        # Spark forks its workers: each has a file of its own.
        pid = os.getpid()
        if pid not in outputs:
            outputs[pid] = os.open(folder / f"{pid}.walk", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        return outputs[pid]

    def entered(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not phase[0]:
            return
        code = frame.f_code
        place = places.get(code)
        if place is None:
            name = next((one for one in _PACKAGES if f"/{one}/" in code.co_filename), None)
            place = ""
            if name is not None:
                file = code.co_filename[code.co_filename.rindex(f"/{name}/") + 1 :]
                place = f"{file}\t{code.co_qualname}\t{code.co_firstlineno}"
            places[code] = place
        if place:
            line = f"{phase[0]}\t{time.monotonic_ns()}\t{threading.get_ident()}\t{place}\n"
            os.write(output(), line.encode())

    threading.setprofile(entered)
    sys.setprofile(entered)


if _FOLDER:
    _install(Path(_FOLDER))
