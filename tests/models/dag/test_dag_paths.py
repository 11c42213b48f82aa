"""Paths into a DAG (3.6), and the blocks that answer a request of the trustless gateway (9)."""

from __future__ import annotations

from typing import Any

import pytest

from culm_models.dag.blocks.cid import DAG_JSON, RAW, Cid, cid_of, make_cid
from culm_models.dag.errors import (
    BlockMissing,
    DagPbMalformed,
    EntityBytesMalformed,
    PathUnknown,
    TooManyLinks,
)
from culm_models.dag.paths.resolve import PathEnd, parse_path, resolve_path
from culm_models.dag.paths.scopes import DagScope, blocks_of_end, parse_entity_bytes
from culm_models.dag.unixfs.directories import DirectoryEntry, DirectoryWalk, list_directory
from culm_models.dag.unixfs.files import read_file
from culm_models.dag.unixfs.importing import FileTree, ImportProfile, import_directory
from culm_models.dag.walk.reach import reach
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.recorded import recorded

HAMT = next(row for row in recorded("unixfs")["path"] if row["name"].startswith("HAMT"))


def end(blocks: BlocksInMemory, root: Cid, path: str = "") -> PathEnd:
    return resolve_path(root, [segment for segment in path.split("/") if segment], blocks.find)


def needed(blocks: BlocksInMemory, root: Cid, path: str, *scope: Any) -> list[Cid]:
    return list(blocks_of_end(end(blocks, root, path), blocks.find, *scope))


def sharded() -> tuple[BlocksInMemory, Cid]:
    blocks = BlocksInMemory()
    for row in HAMT["blocks"]:
        blocks.raw(bytes.fromhex(row["hex"]))
        blocks.put(parse_path(row["cid"])[0], bytes.fromhex(row["hex"]))
    return blocks, parse_path(HAMT["path"])[0]


def test_segments_are_keys_and_indexes_and_links_are_followed() -> None:
    blocks = BlocksInMemory()
    inner = blocks.value({"n": [10, {"x": True}], "0": "zero"})
    text = b'{"up": {"/": "' + inner.text.encode() + b'"}, "n": 1.5}'
    middle = cid_of(DAG_JSON, text)
    blocks.put(middle, text)
    root = blocks.value({"a": [None, middle], "link": inner, "": 1})
    assert end(blocks, root, "a/0").value is None
    assert end(blocks, root, "a/1/n").value == 1.5
    assert end(blocks, root, "a/1/up/n/1/x").value is True
    path_end = end(blocks, root, "a/1/up/0")
    assert (path_end.cid, path_end.value, path_end.passed) == (inner, "zero", (root, middle, inner))
    assert end(blocks, root, "link").value == {"n": [10, {"x": True}], "0": "zero"}
    assert end(blocks, root, "a").value == [None, middle]
    outer = blocks.value(inner)
    assert end(blocks, outer, "0").value == "zero"


@pytest.mark.parametrize(
    "path", ["b", "a/2", "a/01", "a/-1", "a/+1", "a/ 1", "a/¹", "a/1x", "a/n", "a/0/x", "s/0"]
)
def test_a_path_that_names_nothing_leads_nowhere(path: str) -> None:
    blocks = BlocksInMemory()
    root = blocks.value({"a": [1, 2], "s": "text"})
    with pytest.raises(PathUnknown):
        end(blocks, root, path)


def test_other_dag_pb_nodes_have_fields() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    root = blocks.pb([(leaf, "name"), (leaf, None)], b"no message")
    assert end(blocks, root).value == {
        "Data": b"no message",
        "Links": [{"Hash": leaf, "Name": "name"}, {"Hash": leaf}],
    }
    assert end(blocks, root, "Data").value == b"no message"
    assert end(blocks, root, "Links/0/Name").value == "name"
    assert end(blocks, root, "Links/1/Hash").block == b"leaf"
    for path in ("name", "Links/0/Tsize", "Links/2", "Links/1/Name"):
        with pytest.raises(PathUnknown):
            end(blocks, root, path)
    assert end(blocks, blocks.pb([], None)).value == {"Links": []}
    # A file is a dag-pb node as well.
    part = blocks.file([(leaf, 4)])
    assert end(blocks, part, "Links/0/Hash").block == b"leaf"


def test_names_in_directories_lead_to_files_and_symlinks_end_paths() -> None:
    blocks = BlocksInMemory()
    tree: FileTree = {"a": b"x" * 30, "deep": {"Links": b"y", "é": b"z"}}
    root = import_directory(tree, ImportProfile(10, 2), blocks.put).cid
    assert end(blocks, root, "a").kind == "file"
    assert end(blocks, root, "deep/Links").block == b"y"
    assert end(blocks, root, "deep/é").block == b"z"
    assert end(blocks, root, "deep").kind == "directory"
    assert [entry.name for entry in list_directory(root, blocks.find)] == ["a", "deep"]
    link = blocks.symlink(b"../a")
    with_link = blocks.directory([(link, "to")])
    path_end = end(blocks, with_link, "to")
    assert (path_end.kind, path_end.value) == ("symlink", "../a")
    for path in ("to/a", "To", "a"):
        with pytest.raises(PathUnknown):
            end(blocks, with_link, path)
    with pytest.raises(PathUnknown):
        end(blocks, root, "a/b")


def test_blocks_of_other_codecs_end_paths() -> None:
    blocks = BlocksInMemory()
    strange = make_cid(1, 0x1234, 0x12, bytes(32))
    blocks.put(strange, b"?")
    assert (end(blocks, strange).kind, end(blocks, strange).block) == ("raw", b"?")
    with pytest.raises(PathUnknown):
        end(blocks, strange, "x")
    identity = make_cid(1, RAW, 0, b"in the CID")
    root = blocks.value({"a": identity})
    assert end(blocks, root, "a").block == b"in the CID"
    assert needed(blocks, root, "a") == [root]


def test_what_is_missing_on_the_way_is_said() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    root = blocks.value({"a": leaf, "b": 1})
    del blocks[leaf]
    assert end(blocks, root, "b").value == 1
    with pytest.raises(BlockMissing, match=leaf.text):
        end(blocks, root, "a")


def test_a_sharded_directory_is_listed_and_searched_alike() -> None:
    blocks, root = sharded()
    entries = list(list_directory(root, blocks.find))
    assert len({entry.name for entry in entries}) == len(entries) > 1
    for entry in entries:
        path_end = end(blocks, root, entry.name)
        assert path_end.cid == entry.cid
        alone = BlocksInMemory()
        alone.update({cid: blocks[cid] for cid in path_end.passed})
        assert end(alone, root, entry.name) == path_end
    with pytest.raises(PathUnknown):
        end(blocks, root, "no such name")


def test_shards_of_a_directory_that_are_no_such_are_refused() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.directory([])
    for message, refused in (("08052800", False), ("080528223080", False), ("08052822308002", True)):
        data = bytes.fromhex(message)
        root = blocks.pb([(leaf, f"{n:02X}") for n in range(256)], data)
        if refused:
            with pytest.raises(DagPbMalformed):
                end(blocks, root, "a")
            with pytest.raises(DagPbMalformed):
                list(list_directory(root, blocks.find))
        else:
            assert end(blocks, root).kind == "value"


def test_a_sharded_directory_ends_where_the_hashes_of_its_names_do() -> None:
    blocks = BlocksInMemory()
    message = bytes.fromhex("08052822308002")
    at = blocks.pb([(blocks.raw(b"x"), "00name")], message)
    for depth in range(1, 9):
        if depth == 8:
            assert [entry.name for entry in list_directory(at, blocks.find)] == ["name"]
        at = blocks.pb([(at, "00")], message)
    with pytest.raises(DagPbMalformed, match="deeper"):
        list(list_directory(at, blocks.find))


def test_a_walk_remembers_a_bounded_number_of_blocks_and_links() -> None:
    blocks = BlocksInMemory()
    root = blocks.value([blocks.value([blocks.raw(bytes([n, m])) for m in range(9)]) for n in range(9)])
    path_end = resolve_path(root, [], blocks.find)
    # At most 9 of the root's links wait, with 9 of the last block's.
    assert len(list(blocks_of_end(path_end, blocks.find, limit=91 + 9))) == 91
    with pytest.raises(TooManyLinks):
        list(blocks_of_end(path_end, blocks.find, limit=90))
    with pytest.raises(TooManyLinks):
        next(blocks_of_end(path_end, blocks.find, limit=9))
        list(blocks_of_end(path_end, blocks.find, limit=9))


def test_scopes_give_the_blocks_that_a_client_needs_and_no_others() -> None:
    blocks = BlocksInMemory()
    tree: FileTree = {"d": {"file": bytes(range(100)), "other": b"other"}, "e": b"e"}
    root = import_directory(tree, ImportProfile(10, 3), blocks.put).cid
    directory = end(blocks, root, "d").cid
    way = [root, directory]
    file = end(blocks, root, "d/file").cid
    assert needed(blocks, root, "d/file", DagScope.BLOCK) == [*way, file]
    whole = needed(blocks, root, "d/file", DagScope.ENTITY)
    assert whole[:3] == [*way, file]
    assert set(whole[2:]) == set(reach((file,), blocks.get).have)
    assert set(needed(blocks, root, "d/file", DagScope.ALL)) == set(whole)
    assert needed(blocks, root, "d", DagScope.BLOCK) == way
    assert needed(blocks, root, "d", DagScope.ENTITY) == way
    assert set(needed(blocks, root, "d", DagScope.ALL)) == {root, *reach((directory,), blocks.get).have}
    assert set(needed(blocks, root, "")) == set(blocks)
    for text, first, stop in (
        ("0:*", 0, 100),
        ("0:0", 0, 1),
        ("10:19", 10, 20),
        ("95:1000", 95, 100),
        ("-5:*", 95, 100),
        ("-5:-2", 95, 99),
        ("0:-91", 0, 10),
        ("1000:2000", 100, 100),
        ("-1000:3", 0, 4),
        ("50:-90", 50, 50),
    ):
        span = parse_entity_bytes(text)
        assert span.within(100) == (first, stop), text
        part = needed(blocks, root, "d/file", DagScope.ENTITY, span)
        alone = BlocksInMemory()
        alone.update({cid: blocks[cid] for cid in part})
        path_end = end(alone, root, "d/file")
        assert b"".join(read_file(path_end.cid, alone.find, first, stop)) == bytes(range(100))[first:stop]
    assert len(needed(blocks, root, "d/file", DagScope.ENTITY, parse_entity_bytes("0:0"))) < len(whole)
    # A range of what is no file is no range.
    assert needed(blocks, root, "d", DagScope.ENTITY, parse_entity_bytes("0:0")) == way


@pytest.mark.parametrize("text", ["100:200", "1000:*", "-300:-200", "50:-90", "55:-60"])
def test_a_range_without_a_byte_of_the_file_is_as_the_scope_block(text: str) -> None:
    blocks = BlocksInMemory()
    tree: FileTree = {"file": bytes(range(100))}
    root = import_directory(tree, ImportProfile(10, 3), blocks.put).cid
    span = parse_entity_bytes(text)
    assert needed(blocks, root, "file", DagScope.ENTITY, span) == needed(blocks, root, "file", DagScope.BLOCK)
    start, stop = span.within(100)
    alone = BlocksInMemory()
    file = end(blocks, root, "file").cid
    alone.put(file, blocks[file])
    assert list(read_file(file, alone.find, start, stop)) == []


def test_blocks_are_repeated_where_that_is_asked_for() -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    file = blocks.file([(leaf, 4), (leaf, 4)])
    identity = make_cid(1, RAW, 0, b"in the CID")
    inner = blocks.directory([(file, "a"), (identity, "i"), (file, "z")])
    root = blocks.directory([(inner, "d")])

    def repeated(path: str, scope: DagScope, limit: int | None = None) -> list[Cid]:
        path_end = end(blocks, root, path)
        return list(blocks_of_end(path_end, blocks.find, scope, repeats=True, limit=limit))

    parts = [file, leaf, leaf]
    assert repeated("d", DagScope.ALL) == [root, inner, *parts, *parts]
    assert repeated("d/a", DagScope.ENTITY) == [root, inner, *parts]
    assert repeated("d", DagScope.ENTITY) == [root, inner]
    assert needed(blocks, root, "d") == [root, inner, file, leaf]
    # However often a small DAG repeats itself, the walk is bounded.
    with pytest.raises(TooManyLinks):
        repeated("d", DagScope.ALL, limit=7)
    at, size = leaf, 4
    for _ in range(40):
        at, size = blocks.file([(at, size), (at, size)]), 2 * size
    for scope in (DagScope.ALL, DagScope.ENTITY):
        with pytest.raises(TooManyLinks):
            list(blocks_of_end(end(blocks, at), blocks.find, scope, repeats=True, limit=1_000))


def test_a_path_has_one_root_a_segment_and_the_shards_of_directories_are_none() -> None:
    blocks, root = sharded()
    ends = [end(blocks, root, entry.name) for entry in list_directory(root, blocks.find)]
    assert [path_end.roots for path_end in ends] == [(root, path_end.cid) for path_end in ends]
    assert max(len(path_end.passed) for path_end in ends) > 2


@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_listing_goes_on_at_any_place(is_sharded: bool) -> None:
    blocks, root = sharded() if is_sharded else plain(40)
    whole = list(list_directory(root, blocks.find))
    walk = DirectoryWalk(root, blocks.find)
    listed = 0
    for step in walk.steps():
        listed += isinstance(step, DirectoryEntry)
        rest = DirectoryWalk(root, blocks.find, walk.place).steps()
        assert [other for other in rest if isinstance(other, DirectoryEntry)] == whole[listed:]
    assert listed == len(whole)


def plain(count: int) -> tuple[BlocksInMemory, Cid]:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    return blocks, blocks.directory([(leaf, f"{number:03}") for number in range(count)])


@pytest.mark.parametrize("position", [(0, 0), (10, 2), (1_000, 0)])
def test_a_listing_does_not_go_on_where_no_shard_is(position: tuple[int, ...]) -> None:
    blocks, root = plain(10)
    with pytest.raises(PathUnknown):
        list(DirectoryWalk(root, blocks.find, position).steps())


def test_the_names_of_a_sharded_directory_are_all_its_shards() -> None:
    blocks, root = sharded()
    alone = BlocksInMemory()
    alone.update({cid: blocks[cid] for cid in needed(blocks, root, "", DagScope.ENTITY)})
    assert list(list_directory(root, alone.find)) == list(list_directory(root, blocks.find))
    assert set(alone) < set(blocks)
    entry = next(list_directory(root, blocks.find))
    assert needed(blocks, root, entry.name, DagScope.BLOCK)[-1] == entry.cid


@pytest.mark.parametrize("text", ["", "1", ":", "*:1", "1:", "a:b", "5:4", "-4:-5", "1:2:3", "١:٢", " 1:2"])
def test_ranges_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(EntityBytesMalformed):
        parse_entity_bytes(text)


def test_a_path_is_a_cid_and_segments() -> None:
    root = cid_of(RAW, b"")
    assert parse_path(f"{root.text}/a//b c/") == (root, ("a", "b c"))
    assert parse_path(root.text) == (root, ())
