"""Bytes as a hostile remote's words: see `fuzz`, which can be run for longer."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.reconciliation import fuzz

ROOT = Path(__file__).parents[3]


@given(st.binary(max_size=200))
def test_the_machine_stands_any_bytes(data: bytes) -> None:
    fuzz.machine(data)


@given(st.binary(max_size=120))
def test_a_peer_stands_any_bytes(data: bytes) -> None:
    fuzz.peer(data)


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("target", ["machine", "peer"])
def test_under_atheris(target: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", fuzz.__name__, target, "-runs=3000", "-max_len=200"]
    completed = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr[-2000:]
