"""docs/conform.md names each operation, message type, event kind and error code of the code, and no other."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from culm_models.chotki.events import SessionEvent
from culm_models.conform.dispatch import OPERATIONS
from culm_models.conform.p2panda.messages import MESSAGES
from culm_models.conform.sds.settings import ALIASES
from culm_models.errors import CulmError
from culm_models.p2panda.events import PeerEvent
from culm_models.p2panda.wire.codec import DECODERS
from culm_models.sds.events import SdsEvent

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
    for subclass in base.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def rows(heading: str) -> set[str]:
    """The first cells of the table under a heading."""
    part = DOC.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)
    assert len(cells) == len(set(cells)), "a row is there once"
    return set(cells)


def test_operations() -> None:
    assert rows("Operations") == {operation.name for operation in OPERATIONS}


def test_messages() -> None:
    documented = rows("Messages")
    assert documented == MESSAGES.records.keys()
    assert len(documented) == len(DECODERS)


def test_events() -> None:
    assert rows("Events") == {kind.kind for kind in PeerEvent.__subclasses__()}


def test_codes() -> None:
    modules = set(PACKAGES)
    for name in PACKAGES:
        package = importlib.import_module(f"culm_models.{name}")
        for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
            importlib.import_module(info.name)
    modules |= {"varu64", "keys", "errors"}
    codes = {
        subclass.code
        for subclass in subclasses(CulmError)
        if subclass.__module__.startswith("culm_models.") and subclass.__module__.split(".")[1] in modules
    }
    assert rows("Error codes") == codes | {"conform.defect"}


def part_of(heading: str) -> str:
    return DOC.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_events_of_chotki() -> None:
    table = part_of("Chotki replicas").split("| event |")[1]
    named = {kind for row in table.split("\n| `")[1:] for kind in row.split(" |")[0].strip("`").split("`, `")}
    # A driver may have events of its own.
    ours = (kind for kind in SessionEvent.__subclasses__() if kind.__module__ == SessionEvent.__module__)
    assert named == {kind.kind for kind in ours}


def test_events_of_sds_with_their_fields() -> None:
    rows = dict(
        line[2:-2].split(" | ", 1) for line in part_of("SDS channels").splitlines() if line[:3] == "| `"
    )
    events = [event for event in SdsEvent.__subclasses__() if "kind" in vars(event)]
    assert set(rows) == {f"`{event.kind}`" for event in events}
    for event in events:
        for name in {field.name for field in fields(event)} - {"message_id", "participant_id"}:
            shown = "message" if name == "reason" else name
            assert f"`{shown}`" in rows[f"`{event.kind}`"], (event.kind, name)


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_alias_is_a_setting_of_sds_and_documented(talk: Any, alias: str) -> None:
    values = {"enable_repair": False, "t_min": 5, "error_rate": 0.01, "bloom_filter_error_rate": 0.01}
    value = values.get(alias, 200_000 if "t_max" in alias else 7)
    talk.ok("sds.open", name="a", participant_id="a", channel_id="c", settings={alias: value}, now=1)
    assert f"`{alias}`" in DOC
