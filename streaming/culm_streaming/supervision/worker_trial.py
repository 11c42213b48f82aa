"""A trial of a Python worker, after one did not connect back in time: slow or broken?

Spark waits ten seconds for a worker that it starts without its daemon, and reports the same for one that was
still importing and for one that had ended. The trial does what such a worker does before it connects, without
a time limit: its outcome tells the difference.
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
"""A worker whose imports take at most this time, half of Spark's wait, would have connected in time."""

Outcome = Literal["in_time", "slow", "broken"]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outcome of a trial. `cause`: the last line that a broken worker printed."""

    outcome: Outcome
    cause: str = ""


class WorkerTrial:
    """One running trial, as a separate process."""

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
        """Return the outcome; None while the trial runs."""
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
        # A worker that was killed, for instance for lack of memory on the machine, says nothing about the
        # next one.
        return TrialResult("in_time" if status == 0 and took_s <= _IN_TIME_S else "slow")
