"""Processes that tests start end with them, and can be interrupted however the tests were started."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT

PROGRAM = """
import subprocess, sys
from tests.support.process.groups import give_children_default_signals
give_children_default_signals()
ask = "import signal; print([signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP)])"
subprocess.run([sys.executable, "-c", ask], check=True)
"""


def ignore() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_children_of_a_run_that_ignores_interrupts_are_interrupted() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, preexec_fn=ignore, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[False, False]"


def test_a_process_beside_a_test_is_started_by_what_kills_it() -> None:
    # The exit of `with Popen(...)` waits for a process that a failed test has not stopped.
    waiting = re.compile(r"with subprocess\.Popen\(")
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    matching = [str(path.relative_to(ROOT)) for path in files if waiting.search(path.read_text())]
    assert matching == ["tests/support/process/groups.py"]
