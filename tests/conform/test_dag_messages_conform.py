"""Messages of DAG replication through lines: the vectors, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded

CASES = recorded("messages")


@pytest.mark.parametrize("row", CASES["valid"], ids=lambda row: row["name"])
def test_messages(talk: Any, row: dict[str, Any]) -> None:
    assert talk.ok("dag.message.encode", message=row["message"]) == {"bytes": row["bytes"]}
    found = talk.ok("dag.message.decode", bytes=row["bytes"] + row["bytes"][:-2])
    assert found == {"messages": [row["message"]], "used": len(row["bytes"]) // 2}


@pytest.mark.parametrize("row", CASES["refused"], ids=lambda row: row["name"])
def test_refused_frames(talk: Any, row: dict[str, Any]) -> None:
    assert talk.code("dag.message.decode", bytes=row["bytes"]) == f"dag.{row['reason']}"
    good = CASES["valid"][0]["bytes"]
    assert talk.code("dag.message.decode", bytes=good + row["bytes"]) == f"dag.{row['reason']}"


SPACE = "00" * 32


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({}, "conform.request"),
        ({"type": "x"}, "conform.request"),
        ({"type": []}, "conform.request"),
        ({"type": "cancel", "space": SPACE}, "conform.request"),
        ({"type": "cancel", "space": SPACE, "links": [], "more": 1}, "conform.request"),
        ({"type": "cancel", "space": SPACE, "links": [1]}, "conform.request"),
        ({"type": "cancel", "space": SPACE, "links": ["x"]}, "dag.bad_cid"),
        ({"type": "cancel", "space": "00", "links": []}, "dag.schema"),
        ({"type": "node", "space": SPACE, "blocks": ["00" * 1_000_000]}, "dag.frame_too_large"),
    ],
)
def test_codes(talk: Any, message: dict[str, Any], code: str) -> None:
    assert talk.code("dag.message.encode", message=message) == code
