"""UnixFS and paths through lines: what ipfs-unixfs-importer makes, and arguments that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.dag.recorded import entries, recorded

SMALL = [row for row in recorded("directories") if row.get("count", 0) < 1000]
"""The larger ones are tested without lines."""
SAME_HASH = ("fpllngzieyoh43e0z04q0ry71eburz1h", "133ols6k1hh2gdnyyHlxzJw8w8vn]lz0")


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
        ({"files": [], "links": [["a"]]}, "conform.request"),
        ({"files": [["a", ""]], "links": [["a", ""]]}, "conform.request"),
        ({"files": [], "directory_max": 0}, "conform.request"),
        # Two names with one murmur3 hash.
        ({"files": [[name, ""] for name in SAME_HASH], "directory_max": 1}, "dag.directory_too_large"),
    ],
)
def test_codes(talk: Any, arguments: dict[str, Any], code: str) -> None:
    assert talk.code("unixfs.add", **arguments) == code


@pytest.mark.parametrize("row", SMALL, ids=lambda row: row["name"])
def test_directories_have_the_root_that_others_give_them(talk: Any, row: dict[str, Any]) -> None:
    names, links = entries(row)
    found = talk.ok(
        "unixfs.add",
        files=[[name, name.encode().hex()] for name in names],
        links=[[name, target.encode().hex()] for name, target in links],
        profile=row["profile"],
        directory_max=row["directory_max"],
    )
    assert found["root"] == row["root"]
    listed = talk.ok("dag.path", path=row["root"], blocks=found["blocks"])["entries"]
    assert sorted(name for name, _ in listed) == sorted([*names, *(name for name, _ in links)])


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
    listed = talk.ok("dag.path", path=tree["root"], blocks=tree["blocks"])["entries"]
    assert [name for name, _ in listed] == ["a", "b"]
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
