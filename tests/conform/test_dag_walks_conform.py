"""Walks and cuts through lines: the vectors, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded


@pytest.mark.parametrize("row", recorded("walks"), ids=lambda row: row["name"])
def test_walks(talk: Any, row: dict[str, Any]) -> None:
    given = {name: row[name] for name in ("link", "origin", "nodes", "shards")}
    assert talk.ok("dag.walk", **given) == row["want"]


@pytest.mark.parametrize("row", recorded("sharding"), ids=lambda row: row["name"])
def test_cuts(talk: Any, row: dict[str, Any]) -> None:
    given = {name: row[name] for name in ("root", "blocks", "size", "per_append", "prior") if name in row}
    if "shards" in row:
        assert talk.ok("dag.shard", **given) == {name: row[name] for name in ("shards", "shard", "appends")}
    else:
        assert talk.code("dag.shard", **given) == f"dag.{row['error']}"


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("dag.walk", {"link": "x"}, "dag.bad_cid"),
        ("dag.walk", {"nodes": ["f6"]}, "dag.schema"),
        ("dag.walk", {"shards": [{"cid": "bafkqaaa", "bytes": "00"}]}, "dag.hash"),
        ("dag.walk", {"shards": [1]}, "conform.request"),
        ("dag.shard", {"root": "bafkqaaa", "blocks": [], "size": 1023}, "conform.request"),
        ("dag.shard", {"root": "bafkqaaa", "blocks": [], "size": 1024, "per_append": 0}, "conform.request"),
    ],
)
def test_codes(talk: Any, do: str, arguments: dict[str, Any], code: str) -> None:
    assert talk.code(do, **arguments) == code


def test_nothing_is_complete(talk: Any) -> None:
    found = talk.ok("dag.walk")
    assert found.pop("complete") is True
    assert set(map(tuple, found.values())) == {()}
