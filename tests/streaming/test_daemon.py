"""The process that Spark's Python workers are forked from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys
import culm_streaming.daemon
jobs = ("culm_streaming.sds.job", "culm_streaming.logs.job")
for name in ("pandas", "pyarrow.compute", "pyspark.worker", *jobs):
    assert name in sys.modules, name
import os
from pathlib import Path
others = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
print(*[task.joinpath("comm").read_text().strip() for task in others])
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux's /proc")
def test_no_thread_is_lost_when_a_worker_is_forked() -> None:
    answer = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    # jemalloc's starts anew in a forked process.
    assert set(answer.stdout.split()) <= {"jemalloc_bg_thd"}
