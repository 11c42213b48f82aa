"""The record of a stack that an earlier program has started is understood."""

from __future__ import annotations

from pathlib import Path

from culm_infra.stack import record
from tests.support import frozen
from tests.support.freeze import stores


def test_a_kept_stack_is_known_by_its_record(tmp_path: Path) -> None:
    assert record.read(frozen.unpack("stack", tmp_path) / "stack.json") == stores.STACK
