"""UnixFS and paths through lines: what ipfs-unixfs-importer makes, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import recorded


@pytest.mark.parametrize("row", recorded("unixfs")["add"], ids=lambda row: row["name"])
def test_imports(talk: Any, row: dict[str, Any]) -> None:
    names = ("bytes", "files", "chunk_size", "width", "profile")
    found = talk.ok("unixfs.add", **{name: row[name] for name in names if name in row})
    assert found["root"] == row["root"]
    assert [block["cid"] for block in found["blocks"]] == row["cids"]
    shards = talk.ok("dag.shard", root=found["root"], blocks=found["blocks"], size=1024)
    walked = talk.ok("dag.walk", link=found["root"], shards=shards["shards"])
    assert (walked["have"], walked["complete"], walked["opaque_blocks"]) == (row["cids"], True, [])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "conform.request"),
        ({"bytes": "00", "profile": "x"}, "conform.request"),
        ({"bytes": "00", "chunk_size": 0}, "conform.request"),
        ({"bytes": "00", "width": 1}, "conform.request"),
        ({"files": [["a"]]}, "conform.request"),
        ({"files": [["../a", ""]]}, "conform.request"),
        ({"files": [["a", ""], ["a", ""]]}, "conform.request"),
        ({"files": [["a", ""], ["a/b", ""]]}, "conform.request"),
        ({"files": [["a/b", ""], ["a", ""]]}, "conform.request"),
        ({"files": [[f"{n:0250}", ""] for n in range(1000)]}, "dag.directory_too_large"),
    ],
)
def test_codes(talk: Any, arguments: dict[str, Any], code: str) -> None:
    assert talk.code("unixfs.add", **arguments) == code


def test_an_empty_directory(talk: Any) -> None:
    found = talk.ok("unixfs.add", files=[])
    assert found["root"] == "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354"


@pytest.mark.parametrize("row", recorded("unixfs")["path"], ids=lambda row: row["name"])
def test_paths(talk: Any, row: dict[str, Any]) -> None:
    given = {
        "path": row["path"],
        "blocks": [{"cid": one["cid"], "bytes": one["hex"]} for one in row["blocks"]],
    }
    if "error" in row:
        assert talk.code("dag.path", **given) == f"dag.{row['error']}"
        return
    found = talk.ok("dag.path", **given)
    assert {name: found[name] for name in row["ok"]} == row["ok"]


def block(talk: Any, value: Any) -> dict[str, str]:
    found: dict[str, str] = talk.ok("cbor.encode", value=value)
    return found


def test_what_stands_at_the_end_of_a_path(talk: Any) -> None:
    tree = talk.ok("unixfs.add", files=[["b", "00"], ["a/c", "0102"]])
    entries = talk.ok("dag.path", path=tree["root"], blocks=tree["blocks"])["entries"]
    assert [name for name, _ in entries] == ["a", "b"]
    one = block(talk, {"x": {"/": tree["root"]}, "n": [None, 1.0]})
    blocks = [*tree["blocks"], {"cid": one["cid"], "bytes": one["bytes"]}]
    assert talk.ok("dag.path", path=f"{one['cid']}/x/a/c", blocks=blocks)["bytes"] == "0102"
    assert talk.ok("dag.path", path=f"{one['cid']}/n", blocks=blocks) == {
        "cid": one["cid"],
        "kind": "value",
        "value": [None, 1.0],
    }


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "conform.request"),
        ({"path": "bafkqaaa"}, "conform.request"),
        ({"path": "", "blocks": []}, "dag.bad_cid"),
        ({"path": "/bafkqaaa", "blocks": []}, "dag.bad_cid"),
        ({"path": "bafkqaaa/x", "blocks": []}, "dag.no_path"),
        ({"path": "bafkqaaa", "blocks": [{"cid": "bafkqaaa", "bytes": "00"}]}, "dag.hash"),
        (
            {"path": "bafyreihaskmlkagl5wmhocs5lhu2cbbdmym5wknaiwywnvnokkswppcmiy", "blocks": []},
            "dag.missing_block",
        ),
    ],
)
def test_codes_of_paths(talk: Any, arguments: dict[str, Any], code: str) -> None:
    assert talk.code("dag.path", **arguments) == code
