"""The process that Spark's Python workers are forked from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import culm_streaming

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


def test_a_worker_imports_pyspark_compiled_and_not_from_the_zip_of_sources_that_spark_puts_in_front() -> None:
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    assert zips
    path = [*zips, Path(culm_streaming.__file__).parent / "worker_path"]
    program = (
        "import sys, json, py4j, pyspark.sql.streaming.transform_with_state_driver_worker as worker\n"
        "print(worker.__file__, py4j.__file__, *sys.path, sep='\\n')"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    assert not [
        line for line in answer.stdout.splitlines() if "/python/lib/" in line or "worker_path" in line
    ]


def test_another_zip_and_another_sitecustomize_stay(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs ran')")
    (tmp_path / "their.zip").touch()
    path = [tmp_path / "their.zip", Path(culm_streaming.__file__).parent / "worker_path", tmp_path]
    answer = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines()[0] == "theirs ran"
    assert str(tmp_path / "their.zip") in answer.stdout.splitlines()
