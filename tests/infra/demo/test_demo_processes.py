"""Processes of the demos end in good order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from culm_infra.demo.kit.processes import CulmProcess, stop_all

_CHILD = """
import signal, sys, time

def on_signal(number, frame):
    signal.signal(number, signal.SIG_DFL)
    time.sleep(float(sys.argv[1]))
    print("ended in good order", flush=True)
    sys.exit()

signal.signal(signal.SIGTERM, on_signal)
print("ready", flush=True)
time.sleep(60)
"""


def test_stopping_several_processes_sends_one_signal_to_each(tmp_path: Path) -> None:
    processes = []
    for seconds in (0.2, 2):
        log = tmp_path / f"{seconds}.log"
        with log.open("wb") as output:
            child = subprocess.Popen([sys.executable, "-c", _CHILD, str(seconds)], stdout=output)
        processes.append(CulmProcess(f"process {seconds}", (), {}, log, child))
    for process in processes:
        process.wait_for_log("ready", 60.0)
    stop_all(processes)
    for process in processes:
        assert not process.is_running
        assert process.printed().splitlines() == ["ready", "ended in good order"]
