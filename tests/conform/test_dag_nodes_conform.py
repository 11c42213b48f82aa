"""Nodes, stores and UCANs through lines: the vectors, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded


def named(rows: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row["name"] for row in rows])


@named(recorded("nodes")["decode"])
def test_nodes(talk: Any, row: dict[str, Any]) -> None:
    if "reason" in row:
        assert talk.code("replica.decode", bytes=row["hex"]) == f"dag.{row['reason']}"
        return
    found = talk.ok("replica.decode", bytes=row["hex"])
    fields = {name: value for name, value in found.items() if name != "cid"}
    assert talk.ok("replica.encode", **fields) == {"bytes": row["hex"], "cid": row["cid"]}


@named(recorded("replicas"))
def test_stores(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("replica.open", name="a")
    for step in row["steps"]:
        if "add" in step:
            do, arguments = "replica.add", {"bytes": step["add"]}
        elif "state" in step:
            do, arguments = "replica.state", {"root": step["state"]}
        else:
            do, arguments = "replica.join", {"heads": step["join"]}
        if "error" in step:
            assert talk.code(do, name="a", **arguments) == f"dag.{step['error']}"
            continue
        found = talk.ok(do, name="a", **arguments)
        for name, value in step["ok"].items():
            wanted = [[cid, f"dag.{code}"] for cid, code in value] if name == "refused" else value
            assert found[name] == wanted, (step, name)


@named(recorded("ucan")["issue"])
def test_issuing(talk: Any, row: dict[str, Any]) -> None:
    given = {
        name: value for name, value in row.items() if name not in ("name", "bytes", "cid", "jwt", "error")
    }
    if "error" in row:
        assert talk.code("ucan.issue", **given) == f"dag.{row['error']}"
    else:
        assert talk.ok("ucan.issue", **given) == {name: row[name] for name in ("bytes", "cid", "jwt")}


@pytest.mark.parametrize("policy", ["bound", "bearer"])
@named(recorded("ucan")["verify"])
def test_verifying(talk: Any, row: dict[str, Any], policy: str) -> None:
    blocks = [{"cid": block["cid"], "bytes": block["hex"]} for block in row["blocks"]]
    names = ("leaf", "jwt", "publish", "now", "services", "leeway", "legacy")
    given = {name: row[name] for name in names if name in row}
    given |= {"blocks": blocks, "subject": row["id"], "policy": policy}
    if row["expected"][policy] == "valid":
        assert talk.ok("ucan.verify", **given) == {"valid": True}
    else:
        assert talk.code("ucan.verify", **given) == f"dag.{row['reasons'][policy]}"


@pytest.mark.parametrize(
    ("do", "arguments", "code"),
    [
        ("replica.decode", {}, "conform.request"),
        ("replica.decode", {"bytes": ""}, "dag.non_canonical"),
        ("replica.encode", {"change": "append"}, "conform.request"),
        ("replica.encode", {"change": "Append"}, "dag.unknown_change"),
        ("replica.encode", {"change": "append", "shards": ["x"]}, "dag.bad_cid"),
        ("replica.encode", {"change": "append", "shards": ["bafkqaaa", "bafkqaaa"]}, "dag.duplicate"),
        ("replica.encode", {"change": "join", "forks": []}, "dag.join_prior_missing"),
        ("replica.add", {"name": "none", "bytes": ""}, "conform.machine"),
        ("replica.add", {"bytes": ""}, "conform.request"),
        ("ucan.verify", {}, "conform.request"),
        ("ucan.issue", {"private_key": "00" * 32, "capabilities": [1], "audience": "x"}, "conform.request"),
        ("ucan.issue", {"private_key": "00" * 32, "capabilities": [], "audience": "x"}, "dag.key"),
        ("ucan.issue", {"private_key": "00", "capabilities": [], "audience": "x"}, "conform.request"),
    ],
)
def test_codes(talk: Any, do: str, arguments: dict[str, Any], code: str) -> None:
    assert talk.code(do, **arguments) == code


def test_an_unknown_root_is_missing(talk: Any) -> None:
    talk.ok("replica.open", name="a")
    assert talk.code("replica.state", name="a", root="bafkqaaa") == "dag.missing"
    assert talk.code("replica.join", name="a", heads=["bafkqaaa"]) == "dag.missing"
    assert talk.code("replica.join", name="a") == "dag.nothing_to_join"
