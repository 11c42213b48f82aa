"""Chotki replicas through lines: a recorded session, and hostile requests; `golden` has every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.chotki.events import SessionEvent
from culm_models.conform.chotki.replicas import OPERATIONS

NOW = 1_763_760_000_000
ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "conform.md").read_text()
RECORDED = json.loads((ROOT / "tests/vectors/chotki/full_connector_empty_listener.json").read_text())


def opened(talk: Any, name: str, src: int, **options: Any) -> None:
    assert talk.ok("chotki.replica.open", name=name, src=src, now=NOW, **options) == {}


def received(talk: Any, name: str, session: str, records: list[str], now: int = NOW) -> dict[str, Any]:
    found: dict[str, Any] = talk.ok(
        "chotki.session.receive", name=name, session=session, bytes="".join(records), now=now
    )
    assert set(found) == {"send", "events", "closed", "others"}
    return found


def test_a_recorded_session_by_lines_is_the_recorded_one(talk: Any) -> None:
    streams: dict[str, list[str]] = {}
    for side, src in (("listener", "10"), ("connector", "11")):
        trace = next(
            one["hex"][-20:] for one in RECORDED["records"] if (one["sender"], one["letter"]) == (side, "H")
        )
        opened(talk, side, int(src), store=RECORDED["before"][side], compat="go")
        answer = talk.ok("chotki.session.open", name=side, session="s", mode=7, trace=trace, now=NOW)
        assert answer["closed"] is False
        streams[side] = answer["send"]
    first = {side: list(records) for side, records in streams.items()}
    for side, other in (("listener", "connector"), ("connector", "listener")):
        streams[side] += received(talk, side, "s", first[other])["send"]
    for side, other in (("listener", "connector"), ("connector", "listener")):
        assert "".join(streams[side]) == RECORDED["streams"][f"1:{side}"]
        received(talk, side, "s", streams[other][1:])
        state = talk.ok("chotki.replica.state", name=side)
        assert state["store"] == RECORDED["after"][side]
        assert state["sessions"]["s"]["state"] == "SendLive"
    assert talk.ok("chotki.replica.state", name="connector")["counter"] == "b-5"


def test_the_documentation_names_every_event_and_no_other() -> None:
    part = DOC.split("## Chotki replicas\n")[1].split("\n## ")[0].split("| event |")[1]
    named = {kind for row in part.split("\n| `")[1:] for kind in row.split(" |")[0].strip("`").split("`, `")}
    # A driver may have events of its own.
    ours = (kind for kind in SessionEvent.__subclasses__() if kind.__module__ == SessionEvent.__module__)
    assert named == {kind.kind for kind in ours}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["s", "a", "00", "O"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
NAMES = [
    "name",
    "session",
    "bytes",
    "now",
    "src",
    "store",
    "settings",
    "mode",
    "trace",
    "letter",
    "ref",
    "body",
]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operation=st.sampled_from([one.name for one in OPERATIONS if one.name != "chotki.replica.close"]),
    arguments=st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8),
)
def test_no_request_causes_a_defect(talk: Any, operation: str, arguments: dict[str, Any]) -> None:
    arguments = {"name": "a", "session": "s", "now": NOW, **arguments}
    talk.raw(json.dumps({"id": 1, "do": "chotki.replica.open", "name": "a", "src": 10, "now": NOW}))
    talk.raw(json.dumps({"id": 1, "do": "chotki.session.open", "name": "a", "session": "s", "now": NOW}))
    talk.raw(json.dumps({"id": 1, "do": operation, **arguments}))
