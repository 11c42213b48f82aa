"""A trial of a Python worker: tells a slow one from a broken one when one did not connect back in time.

Spark waits ten seconds for a worker that it starts without its daemon, and says the same of one that was
still importing and of one that had ended. The trial does what such a worker does before it connects, with as
much time as it takes: what counts is how it ends.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, Final, Literal

_MODULE: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"
_IN_TIME_S: Final = 5.0
"""A worker that is imported in so much, half of what Spark waits, would have connected in time."""

Outcome = Literal["in_time", "slow", "broken"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How a trial ended. `cause`: the last line that a broken worker printed."""

    outcome: Outcome
    cause: str = ""


class WorkerTrial:
    """One trial under way, as a process of its own."""

    def __init__(self, module: str = _MODULE) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the result
        self._began_s = time.monotonic()
        self._process = subprocess.Popen(
            [os.environ.get("PYSPARK_PYTHON") or sys.executable, "-c", f"import {module}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def result(self) -> TrialResult | None:
        """How it ended; None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        took_s = time.monotonic() - self._began_s
        with self._errors as errors:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
        if status > 0:
            last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
            return TrialResult("broken", last)
        # One that was killed, by a machine that has no memory left for instance, says nothing about the next.
        return TrialResult("in_time" if status == 0 and took_s <= _IN_TIME_S else "slow")
