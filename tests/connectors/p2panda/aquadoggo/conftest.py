"""The edge of the tests of links to p2panda nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.p2panda.histories import NodeModel
from tests.support.p2panda.node_edge import Edge


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Edge]:
    opened = Edge(tmp_path, NodeModel())
    yield opened
    opened.store.close()
