"""`culm dag get`: every file of a directory or none, and nothing outside of the target."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from culm_models.dag.blocks.cid import Cid
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.support.dag_shell import Shell, contents


@pytest.fixture
def culm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "dag", capsys)


@pytest.fixture
def blocks() -> BlocksInMemory:
    return BlocksInMemory()


@pytest.mark.parametrize("order", [("v4", "v4.part"), ("v4.part", "v4")])
def test_no_name_stands_in_the_way_of_another(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path, order: tuple[str, str]
) -> None:
    names = [*order, "v4.part.part", ".culm-x"]
    root = blocks.directory([(blocks.raw(name.encode()), name) for name in names])
    culm.keep(root, blocks)
    culm("get", root.text, tmp_path / "out")
    assert contents(tmp_path / "out") == {name: name.encode() for name in names}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dag", "out"]


@pytest.mark.parametrize("size", range(250, 256))
def test_a_name_as_long_as_a_disk_allows_comes_back(culm: Shell, tmp_path: Path, size: int) -> None:
    site = tmp_path / "site"
    (site / ("d" * size)).mkdir(parents=True)
    (site / ("n" * size)).write_text("long")
    (site / ("d" * size) / "z").write_text("below")
    put = culm.one("put", site)
    culm("get", put["cid"], tmp_path / "out")
    assert contents(tmp_path / "out") == contents(site)
    culm("get", f"{put['cid']}/{'n' * size}", tmp_path / ("n" * size))
    assert (tmp_path / ("n" * size)).read_text() == "long"


def test_an_entry_that_no_disk_holds_is_left_out_by_name_and_the_others_are_written(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    below = blocks.directory([(blocks.raw(b"lost"), "x")])
    root = blocks.directory([(below, "n" * 256), (blocks.raw(b"a"), "a"), (blocks.raw(b"b"), "m" * 300)])
    culm.keep(root, blocks)
    row = culm.one("get", root.text, tmp_path / "out", "--json", status=3)
    assert [path for path, _ in row["left_out"]] == ["n" * 256, "m" * 300]
    assert contents(tmp_path / "out") == {"a": b"a"}
    assert "is left out: File name too long" in culm.refused("get", root.text, tmp_path / "again", status=3)


def test_of_two_entries_of_one_name_the_first_counts(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    outside = blocks.symlink(os.fsencode(tmp_path / "outside"))
    one, other = blocks.raw(b"one"), blocks.raw(b"other")
    root = blocks.directory([(one, "x"), (other, "x"), (outside, "y"), (other, "y")])
    culm.keep(root, blocks)
    row = culm.one("get", root.text, tmp_path / "out", "--json", status=3)
    assert sorted(path for path, _ in row["left_out"]) == ["x", "y", "y"]
    assert contents(tmp_path / "out") == {"x": b"one"}
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["../out", "..", ".", "", "a/b", "a\0b", "/etc/x"])
def test_a_directory_with_a_name_that_leads_elsewhere_is_not_written(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path, name: str
) -> None:
    root = blocks.directory([(blocks.raw(b"x"), "a"), (blocks.raw(b"x"), name)])
    culm.keep(root, blocks)
    assert "a name that no file has" in culm.refused("get", root.text, tmp_path / "in")
    assert [one.name for one in tmp_path.iterdir()] == ["dag"]


def test_nothing_is_written_through_a_symbolic_link(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    file = blocks.raw(b"new")
    root = blocks.directory([(file, "f")])
    culm.keep(root, blocks)
    (tmp_path / "outside").write_text("old")
    for name in ("f", "f.part", "link"):
        (tmp_path / name).symlink_to(tmp_path / "outside")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for target in ("link", "gone"):
        assert "exists already" in culm.refused("get", file.text, tmp_path / target)
        assert "exists already" in culm.refused("get", root.text, tmp_path / target)
    (tmp_path / "f").unlink()
    culm("get", file.text, tmp_path / "f")
    assert ((tmp_path / "f").read_text(), (tmp_path / "outside").read_text()) == ("new", "old")
    assert not (tmp_path / "nowhere").exists()


def test_a_target_that_exists_is_named_in_a_sentence_and_only_a_file_is_replaced_by_a_file(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    file = blocks.raw(b"new")
    root = blocks.directory([(file, "f")])
    culm.keep(root, blocks)
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for target in ("file", "folder"):
        assert f"{target} exists already" in culm.refused("get", root.text, tmp_path / target)
    assert "exists already" in culm.refused("get", file.text, tmp_path / "folder")
    assert "nothing can be written into" in culm.refused("get", root.text, tmp_path / "file" / "out")
    assert contents(tmp_path / "folder") == {"mine": b"mine"}
    culm("get", file.text, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "new"
    culm("get", root.text, tmp_path / "deep" / "er")
    assert contents(tmp_path / "deep" / "er") == {"f": b"new"}


def test_a_directory_that_cannot_be_read_whole_leaves_nothing_behind(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    missing = blocks.raw(b"missing")
    root = blocks.directory([(blocks.raw(b"x"), "a"), (missing, "b")])
    del blocks[missing]
    culm.keep(root, blocks)
    culm("get", root.text, tmp_path / "out", status=1)
    assert [one.name for one in tmp_path.iterdir()] == ["dag"]


def linked(blocks: BlocksInMemory, *links: tuple[str, str]) -> Cid:
    """A directory with `d/e/f` and links in it, each at a path of names with its target."""
    tree: dict[str, list[tuple[Cid, str]]] = {"": [], "d": [], "d/e": [(blocks.raw(b"x"), "f")]}
    for path, target in links:
        folder, _, name = path.rpartition("/")
        tree[folder].append((blocks.symlink(os.fsencode(target)), name))
    tree["d"].append((blocks.directory(tree["d/e"]), "e"))
    return blocks.directory([*tree[""], (blocks.directory(tree["d"]), "d")])


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", "d/e/f"),
        ("l", "."),
        ("l", "nowhere"),
        ("l", "./d//e/"),
        ("l", "d/../d/e"),
        ("d/l", "e/f"),
        ("d/e/l", "../../d"),
        ("d/e/l", "../.."),
        ("l", "\udcff"),
    ],
)
def test_a_symbolic_link_inside_the_directory_is_restored(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path, path: str, target: str
) -> None:
    root = linked(blocks, (path, target))
    culm.keep(root, blocks)
    culm("get", root.text, tmp_path / "out")
    assert os.readlink(tmp_path / "out" / path) == target  # noqa: PTH115
    assert (tmp_path / "out" / "d" / "e" / "f").read_bytes() == b"x"


@pytest.mark.parametrize(
    "links",
    [
        [("l", "/etc/passwd")],
        [("l", "..")],
        [("l", "d/../../x")],
        [("d/e/l", "../../../x")],
        [("l", "")],
        [("l", "a\0b")],
        [("l", "nowhere/../..")],
        [("l", "d/e/f/..")],
        [("d/e/up", "../.."), ("l", "d/e/up/../x")],
        [("k", "l/../../x"), ("d/e/up", "../..")],
    ],
)
def test_a_symbolic_link_that_may_leave_the_directory_is_left_out(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path, links: list[tuple[str, str]]
) -> None:
    root = linked(blocks, *links)
    culm.keep(root, blocks)
    row = culm.one("get", root.text, tmp_path / "out", "--json", status=3)
    ((path, reason),) = row["left_out"]
    assert path in ("l", "k", "d/e/l") and "leaves the directory" in reason
    assert not os.path.lexists(tmp_path / "out" / path)
    # The tree that is left is closed: every link in it leads into it.
    for link in (tmp_path / "out").rglob("*"):
        assert link.resolve().is_relative_to((tmp_path / "out").resolve())


def test_nothing_is_written_through_a_link_of_the_tree_itself(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    link = blocks.symlink(os.fsencode(tmp_path / "outside"))
    below = blocks.directory([(blocks.raw(b"x"), "f")])
    root = blocks.directory([(link, "d"), (below, "d")])
    culm.keep(root, blocks)
    culm("get", root.text, tmp_path / "out", status=3)
    assert list((tmp_path / "outside").iterdir()) == []
    assert culm.one("get", f"{root.text}/d", "--json")["kind"] == "symlink"
    culm("get", f"{root.text}/d", tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == os.fsencode(tmp_path / "outside")
