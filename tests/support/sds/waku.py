"""@waku/sds, the JavaScript implementation of SDS, as a process: installed once, spoken to a line at a time.

Its driver and the versions that are installed are in `tests/waku_sds`. `CULM_WAKU_SDS=off` skips what needs
it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.process.npm_driver import NpmDriver

_DRIVER: Final = NpmDriver(
    "@waku/sds", Path(__file__).parents[2] / "waku_sds", ("driver.mjs", "message_json.mjs"), "CULM_WAKU_SDS"
)
_DEADLINE_S: Final = 30.0


@dataclass
class WakuSds:
    """The running driver."""

    process: subprocess.Popen[str]

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What a request is answered with. Raises AssertionError with the driver's error."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        answer: dict[str, Any] = json.loads(line)
        assert "ok" in answer, answer
        result: dict[str, Any] = answer["ok"]
        return result


@contextlib.contextmanager
def running() -> Iterator[WakuSds]:
    """The driver, until the block ends."""
    process = subprocess.Popen(
        ["node", str(_DRIVER.program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield WakuSds(process)
    finally:
        process.stdin.close()
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
