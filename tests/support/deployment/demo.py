"""`culm demo` as a user runs it: in a process, with a stack of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tests.support.process.groups import child

_LIMIT_S: Final = 840
# As in the other tests on Spark: a micro-batch of a cold JVM costs by its tasks.
_ENVIRONMENT: Final = os.environ | {"CULM_JOB__STATE_PARTITIONS": "2"}


def culm(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "culm_infra", *map(str, arguments)]
    with child(command, stderr=subprocess.PIPE, env=_ENVIRONMENT) as process:
        try:
            output, errors = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            # It stops what it started, and then its story is told.
            process.terminate()
            output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
