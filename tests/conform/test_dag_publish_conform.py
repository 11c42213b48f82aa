"""The publish machine through lines: the vectors, and that one authorised operation has one CID."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded


@pytest.mark.parametrize("row", recorded("publish"), ids=lambda row: row["name"])
def test_machines(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("publish.open", name="a", **row["open"])
    for step in row["steps"]:
        if "state" in step:
            want = dict(step["want"])
            if "refused" in want:
                want["refused"] = [[cid, f"dag.{code}"] for cid, code in want["refused"]]
            found = talk.ok("publish.state", name="a", publish_id=step["state"])
            found["next"] = talk.ok("publish.next", name="a", publish_id=step["state"])["prior"]
        else:
            want = step.get("ok") or {}
            given = {"cid": step["cid"], "bytes": step["hex"], "now": step["now"]}
            if "error" in step:
                assert talk.code("publish.add", name="a", **given) == f"dag.{step['error']}"
                continue
            found = talk.ok("publish.add", name="a", **given)
        assert {name: found[name] for name in want} == want, step


@pytest.mark.parametrize("row", recorded("one_cid"), ids=lambda row: row["name"])
def test_nobody_makes_a_second_operation_of_an_authorised_one(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("publish.open", name="a")

    def add(block: dict[str, str]) -> dict[str, Any]:
        return {"name": "a", "cid": block["cid"], "bytes": block["hex"], "now": row["now"]}

    for block in row["blocks"]:
        assert talk.ok("publish.add", **add(block))["kind"] == "ucan"
    assert talk.ok("publish.add", **add(row["base"]))["admission"] == "admitted"
    for variant in row["variants"]:
        assert talk.code("publish.add", **add(variant)) == f"dag.{variant['reason']}", variant["name"]
    state = talk.ok("publish.state", name="a", publish_id=row["id"])
    assert state["order"] == [row["base"]["cid"]]


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("publish.open", {"name": "b", "policy": "x"}, "conform.request"),
        ("publish.open", {"name": "b", "services": ["x"]}, "dag.key"),
        ("publish.add", {"name": "none", "cid": "bafkqaaa", "bytes": "", "now": 1}, "conform.machine"),
        ("publish.add", {"name": "a", "cid": "bafkqaaa", "bytes": ""}, "conform.request"),
        ("publish.add", {"name": "a", "cid": "bafkqaaa", "bytes": "", "now": -1}, "conform.request"),
        ("publish.state", {"name": "a", "publish_id": "00"}, "conform.request"),
    ],
)
def test_codes(talk: Any, do: str, arguments: dict[str, Any], code: str) -> None:
    talk.ok("publish.open", name="a")
    assert talk.code(do, **arguments) == code
