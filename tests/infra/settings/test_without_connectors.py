"""Settings are read where only the command line or the jobs are installed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(name, name=name)

ABSENT = {"aioquic", "lmdb", "lz4", "starlette", "uvicorn"}
sys.meta_path.insert(0, Absent())
from culm_infra.settings import load
print(load().connector.listen)
"""


def test_settings_need_no_library_of_connectors() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "127.0.0.1:0"
