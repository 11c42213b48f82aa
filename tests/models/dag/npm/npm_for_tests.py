"""The JavaScript libraries of IPLD and UCAN as a process: installed once, spoken to a line at a time.

Driver and versions are in `tests/dag_npm`. `CULM_DAG_NPM=off` skips what needs them.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.process.groups import child
from tests.support.process.npm_driver import NpmDriver

_DRIVER: Final = NpmDriver(
    "JavaScript libraries", Path(__file__).parents[3] / "dag_npm", ("driver.mjs",), "CULM_DAG_NPM"
)


class JsLibraries:
    """The running driver."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What the libraries answer: `ok` or `error`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def ok(self, do: str, **arguments: Any) -> dict[str, Any]:
        """An answer that is no error."""
        answer = self.ask(do, **arguments)
        assert "ok" in answer, answer
        fields: dict[str, Any] = answer["ok"]
        return fields


@contextlib.contextmanager
def js_libraries() -> Iterator[JsLibraries]:
    """The driver, for a while."""
    with child(["node", str(_DRIVER.program())], stdin=subprocess.PIPE) as process:
        yield JsLibraries(process)
