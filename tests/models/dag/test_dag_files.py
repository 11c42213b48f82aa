"""Files of UnixFS (3.6) are read in any range, and directories have the CIDs that boxo gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_pb import decode_dag_pb
from culm_models.dag.errors import BlockMissing, DagPbMalformed
from culm_models.dag.paths.resolve import resolve_path
from culm_models.dag.unixfs import files
from culm_models.dag.unixfs.directories import list_directory
from culm_models.dag.unixfs.files import DEPTH_MAX, file_blocks, file_size, read_file
from culm_models.dag.unixfs.importing import PROFILES, ImportProfile, Symlink, import_bytes, import_directory
from culm_models.dag.unixfs.message import read_unixfs, symlink_target
from culm_models.dag.walk.reach import reach
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.recorded import entries, recorded

DATA = bytes(range(1, 256))


def contents(cid: Cid, blocks: BlocksInMemory, *span: int) -> bytes:
    return b"".join(read_file(cid, blocks.find, *span))


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(2, 5), st.data())
@settings(max_examples=60)
def test_any_range_of_what_was_put_comes_back(data: bytes, chunk: int, width: int, draw: Any) -> None:
    blocks = BlocksInMemory()
    root = import_bytes(data, ImportProfile(chunk, width), blocks.put)
    assert contents(root.cid, blocks) == data
    assert file_size(root.cid, blocks.find) == len(data) == root.content
    start, stop = draw.draw(st.integers(0, 310)), draw.draw(st.integers(0, 310))
    assert contents(root.cid, blocks, start, stop) == data[start:stop]
    needed = list(file_blocks(root.cid, blocks.find, start, stop))
    assert len(set(needed)) == len(needed)
    blocks.asked.clear()
    contents(root.cid, blocks, start, stop)
    assert set(needed) == set(blocks.asked)
    alone = BlocksInMemory()
    alone.update({cid: blocks[cid] for cid in needed})
    assert contents(root.cid, alone, start, stop) == data[start:stop]
    assert set(file_blocks(root.cid, blocks.find)) == set(reach((root.cid,), blocks.get).have)


def test_bytes_in_inner_nodes_and_trees_of_any_shape_are_read() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    old_leaf = blocks.pb([], bytes.fromhex("0800") + b"\x12\x03old" + b"\x18\x03")
    inner = blocks.file([(leaf, 4)], b"inner ")
    root = blocks.file([(inner, 10), (leaf, 4), (old_leaf, 3)], b"root ")
    whole = b"root inner leafleafold"
    assert contents(root, blocks) == whole
    for start in range(len(whole) + 1):
        for stop in range(start, len(whole) + 1):
            assert contents(root, blocks, start, stop) == whole[start:stop]


def test_packed_sizes_are_read() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    root = blocks.pb([(leaf, ""), (leaf, "")], bytes.fromhex("08021808220204" + "04"))
    assert contents(root, blocks) == b"leafleaf"


@pytest.mark.parametrize(
    "message",
    [
        "",  # no kind
        "0802",  # no size for the link
        "080220042004",  # one size too many
        "080218052004",  # another size than its parts
        "08022003",  # a leaf of another size
        "0809",  # an unknown kind
        "08012004",  # a directory
        "0d020000002004",  # another wire type
        "08022204",  # cut
    ],
)
def test_a_node_that_its_parts_contradict_is_refused(message: str) -> None:
    blocks = BlocksInMemory()
    root = blocks.pb([(blocks.raw(b"leaf"), "")], bytes.fromhex(message))
    with pytest.raises(DagPbMalformed):
        contents(root, blocks)


def test_a_missing_block_is_missing_only_where_it_is_needed() -> None:
    blocks = BlocksInMemory()
    root = import_bytes(DATA, ImportProfile(10, 5), blocks.put).cid
    last = blocks.raw(DATA[250:])
    del blocks[last]
    assert contents(root, blocks, 0, 250) == DATA[:250]
    with pytest.raises(BlockMissing, match=last.text):
        contents(root, blocks, 0, 251)
    with pytest.raises(BlockMissing, match=last.text):
        list(file_blocks(root, blocks.find))


def test_a_dag_of_links_to_the_same_block_costs_no_more_than_its_blocks() -> None:
    blocks = BlocksInMemory()
    top, size = blocks.raw(b"x"), 1
    for _ in range(60):
        top, size = blocks.file([(top, size), (top, size)]), 2 * size
    blocks.asked.clear()
    assert len(list(file_blocks(top, blocks.find))) == 61
    assert len(list(file_blocks(top, blocks.find, 1, size - 1))) == 61
    # The root, and then each link of each of the 60 levels: twice, since only the inside repeats.
    assert len(blocks.asked) < 1000
    assert contents(top, blocks, size - 3) == b"xxx"
    assert next(read_file(top, blocks.find)) == b"x"


def test_a_dag_without_bytes_costs_nothing() -> None:
    blocks = BlocksInMemory()
    top = blocks.raw(b"")
    for _ in range(60):
        top = blocks.file([(top, 0), (top, 0)])
    blocks.asked.clear()
    assert contents(top, blocks) == b""
    assert blocks.asked == [top]


def test_a_chain_of_nodes_ends() -> None:
    blocks = BlocksInMemory()
    top = blocks.raw(b"x")
    for _ in range(DEPTH_MAX):
        top = blocks.file([(top, 1)])
    assert contents(top, blocks) == b"x"
    with pytest.raises(DagPbMalformed, match="levels"):
        contents(blocks.file([(top, 1)]), blocks)


def test_parts_side_by_side_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PENDING_MAX", 100)
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"x")
    top, size = blocks.file([(leaf, 1)] * 60), 60
    assert len(contents(top, blocks)) == 60
    for _ in range(2):
        top, size = blocks.file([(top, size), *[(leaf, 1)] * 59]), size + 59
    with pytest.raises(DagPbMalformed, match="side by side"):
        contents(top, blocks)
    with pytest.raises(DagPbMalformed, match="side by side"):
        list(file_blocks(top, blocks.find))


# Writing directories of UnixFS (3.6): in one node or over many, with the CIDs that boxo gives them.


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
