"""UnixFS through lines: the CIDs that ipfs-unixfs-importer gives, and arguments that are wrong."""

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
