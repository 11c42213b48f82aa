"""Writing directories of UnixFS (3.6): in one node or over many, with the CIDs that boxo gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.dag_pb import decode_dag_pb
from culm_models.dag.paths.resolve import resolve_path
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.importing import PROFILES, ImportProfile, Symlink, import_directory
from culm_models.dag.unixfs.message import read_unixfs, symlink_target
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.recorded import entries, recorded

_KINDS = {"directory": "DIRECTORY", "sharded": "SHARDED_DIRECTORY"}


@pytest.mark.parametrize("row", recorded("directories"), ids=lambda row: row["name"])
def test_directories_have_the_root_and_the_size_that_others_give_them(row: dict[str, Any]) -> None:
    names, links = entries(row)
    tree: dict[str, bytes | Symlink] = {name: name.encode() for name in names}
    tree |= {name: Symlink(target.encode()) for name, target in links}
    blocks = BlocksInMemory()
    profile = replace(PROFILES[row["profile"]], directory_max=row["directory_max"])
    root = import_directory(tree, profile, blocks.put)
    assert (root.cid.text, root.total) == (row["root"], row["size"])
    message = read_unixfs(decode_dag_pb(blocks[root.cid]))
    assert message is not None and message.kind.name == _KINDS[row["kind"]]
    for name, target in links:
        assert symlink_target(resolve_path(root.cid, (name,), blocks.find).block) == target.encode()


_NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(_NAMES, st.binary(max_size=3), max_size=40), st.integers(1, 2000))
@settings(max_examples=40)
def test_every_name_is_listed_and_leads_to_its_file(tree: dict[str, bytes], directory_max: int) -> None:
    blocks = BlocksInMemory()
    root = import_directory(tree, ImportProfile(100, 10, directory_max), blocks.put).cid
    listed = {entry.name: blocks[entry.cid] for entry in list_directory(root, blocks.find)}
    assert listed == tree
    assert {name: resolve_path(root, (name,), blocks.find).block for name in tree} == tree


def test_a_sharded_directory_stands_in_a_directory_with_all_its_blocks_counted() -> None:
    blocks = BlocksInMemory()
    profile = ImportProfile(100, 10, 200)
    inner = {f"{number}": b"x" for number in range(9)}
    below = import_directory(inner, profile, blocks.put)
    root = import_directory({"d": inner, "f": b""}, profile, blocks.put)
    (link, _) = decode_dag_pb(blocks[root.cid]).links
    assert (link.cid, link.size) == (below.cid, below.total)
