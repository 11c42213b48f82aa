"""What tests of the edge have in common."""

from __future__ import annotations

import pytest

from tests.support.process.full_disk import Disk, made_disk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk of the connectors of a test."""
    return made_disk(monkeypatch)
