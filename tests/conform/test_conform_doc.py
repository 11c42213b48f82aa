"""docs/conform.md names each operation, message type, event kind and error code of the code, and no other."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from culm_models.conform.dispatch import OPERATIONS
from culm_models.conform.p2panda.messages import MESSAGES
from culm_models.errors import CulmError
from culm_models.p2panda.events import Event
from culm_models.p2panda.wire.codec import DECODERS

DOC = (Path(__file__).parents[2] / "docs" / "conform.md").read_text()
PACKAGES = (
    "bamboo",
    "bamboo_p2p",
    "bymux",
    "cbor",
    "chotki",
    "conform",
    "dag",
    "lzfoo",
    "p2panda",
    "reconciliation",
    "sds",
)


def subclasses(base: type[CulmError]) -> Iterator[type[CulmError]]:
    """All classes below a class."""
    for found in base.__subclasses__():
        yield found
        yield from subclasses(found)


def rows(heading: str) -> set[str]:
    """The first cells of the table under a heading."""
    part = DOC.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)
    assert len(found) == len(set(found)), "a row is there once"
    return set(found)


def test_operations() -> None:
    assert rows("Operations") == {operation.name for operation in OPERATIONS}


def test_messages() -> None:
    found = rows("Messages")
    assert found == MESSAGES.records.keys()
    assert len(found) == len(DECODERS)


def test_events() -> None:
    assert rows("Events") == {kind.kind for kind in Event.__subclasses__()}


def test_codes() -> None:
    modules = set(PACKAGES)
    for name in PACKAGES:
        package = importlib.import_module(f"culm_models.{name}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(info.name)
    modules |= {"varu64", "keys", "errors"}
    codes = {
        found.code
        for found in subclasses(CulmError)
        if found.__module__.startswith("culm_models.") and found.__module__.split(".")[1] in modules
    }
    assert rows("Error codes") == codes | {"conform.defect"}
