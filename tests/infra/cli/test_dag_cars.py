"""`culm dag import`, `export` and `get`: CARs of other tools, files and directories, nothing outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from culm_models.dag.blocks.cid import RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car import car_header, car_section, read_car, write_car
from culm_models.dag.car.reader import V2_HEAD_SIZE
from tests.models.dag.blocks_in_memory import BlocksInMemory
from tests.models.dag.recorded import recorded
from tests.support.dag.shell import Shell, contents

CARS = {row["name"]: row for row in recorded("cars")}
TREE = {"a": b"one", "b": b"two", "c": b""}


@pytest.fixture
def culm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "dag", capsys)


@pytest.fixture
def car(tmp_path: Path) -> Path:
    return tmp_path / "some.car"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    for name, data in TREE.items():
        (tmp_path / "site" / name).write_bytes(data)
    return tmp_path / "site"


@pytest.mark.parametrize("row", CARS.values(), ids=CARS)
def test_every_block_of_a_car_comes_in(culm: Shell, car: Path, tmp_path: Path, row: dict[str, Any]) -> None:
    car.write_bytes(bytes.fromhex(row["hex"]))
    imported = culm.one("import", car, status=3 if row["missing"] else 0)
    assert (imported["roots"], imported["missing"]) == (row["roots"], row["missing"])
    assert imported["blocks"] == len(set(row["blocks"]))
    assert (imported["origin"] is None) is (not row["blocks"])
    for text in row["blocks"]:
        culm("get", text, "--json")
    root = CARS["version 1"]["roots"][0]
    if not row["missing"]:
        culm("get", root, "-o", tmp_path / "out")
        assert contents(tmp_path / "out") == TREE
        assert culm.one("publish", root)["state"] == "complete"


def test_a_car_becomes_the_shards_that_the_files_themselves_become(
    culm: Shell, car: Path, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put = Shell(tmp_path / "other", capsys).one("put", site)
    for name in ("version 1", "version 2", "version 1 with two roots, one below the other"):
        car.write_bytes(bytes.fromhex(CARS[name]["hex"]))
        culm.folder = tmp_path / name
        imported = culm.one("import", car, "--space", "ab" * 32)
        assert (imported["space"], imported["origin"], imported["shards"]) == (
            "ab" * 32,
            put["origin"],
            put["shards"],
        )


def test_a_dag_goes_out_as_a_car_and_comes_back(
    culm: Shell, car: Path, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put = culm.one("put", site)
    culm.one("put", site / "a")
    exported = culm.one("export", "-o", car, "--root", put["cid"].upper())
    assert exported == {"root": put["cid"], "blocks": 4, "bytes": car.stat().st_size}
    parsed = read_car(car.read_bytes())
    assert [cid.text for cid in parsed.roots] == [put["cid"]]
    assert parsed.sections[0].cid.text == put["cid"]
    assert {section.cid.text for section in parsed.sections} == set(CARS["version 1"]["blocks"])
    again = Shell(tmp_path / "again", capsys)
    assert again.one("import", car)["roots"] == [put["cid"]]
    again("get", put["cid"], "-o", tmp_path / "out")
    assert contents(tmp_path / "out") == TREE
    assert "exists already" in culm.refused("export", "-o", car, "--root", put["cid"])
    assert "exists and is not empty" in culm.refused("export", "-o", car)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for words in ((), ("--root", put["cid"])):
        assert "exists" in culm.refused("export", "-o", tmp_path / "gone", *words)


def test_a_dag_that_is_not_whole_is_not_exported(culm: Shell, car: Path, tmp_path: Path) -> None:
    car.write_bytes(bytes.fromhex(CARS["version 1 without a leaf"]["hex"]))
    root = culm.one("import", car, status=3)["roots"][0]
    assert "dag.missing_block" in culm.refused("export", "-o", tmp_path / "out.car", "--root", root)
    assert not (tmp_path / "out.car").exists()
    # What is here already is not missing.
    (tmp_path / "leaf").write_bytes(b"one")
    culm("put", tmp_path / "leaf", "--codec", "raw")
    assert culm.one("import", car)["missing"] == []
    culm("export", "-o", tmp_path / "out.car", "--root", root)


def broken_cars() -> dict[str, tuple[bytes, str]]:
    version_1, version_2 = (bytes.fromhex(CARS[f"version {number}"]["hex"]) for number in (1, 2))
    leaf = cid_of(RAW, b"one")
    large = b"x" * 2_097_153
    unknown = make_cid(1, RAW, 0x16, bytes(32))
    return {
        "no CAR": (b"hello", "dag.car_header"),
        "empty": (b"", "dag.car_header"),
        "cut short": (version_1[:-1], "dag.car_section"),
        "more behind it": (version_1 + b"\0", "dag.car_section"),
        "another block": (version_1.replace(b"two", b"2wo"), "dag.hash"),
        "another version": (b"\x0a\xa1gversion\x03", "dag.car_version"),
        "a block that no shard holds": (
            car_header([leaf]) + b"\xa5\x80\x80\x01" + cid_of(RAW, large).raw + large,
            "dag.too_large",
        ),
        "a hash function that is not checked": (
            car_header([]) + car_section(unknown, b"x"),
            "dag.hash_unsupported",
        ),
        "version 2, cut in its header": (version_2[: V2_HEAD_SIZE - 1], "dag.car_header"),
        "version 2, cut in its data": (version_2[: V2_HEAD_SIZE + 100], "dag.car_header"),
        "version 2, unfinished": (version_2[:11] + bytes(40) + version_2[51:], "dag.car_header"),
        "version 2 in itself": (
            version_2[:11]
            + bytes(16)
            + (51).to_bytes(8, "little")
            + len(version_2).to_bytes(8, "little")
            + bytes(8)
            + version_2,
            "dag.car_v2",
        ),
    }


@pytest.mark.parametrize("name", broken_cars())
def test_nothing_of_a_broken_car_is_kept(culm: Shell, car: Path, name: str) -> None:
    data, code = broken_cars()[name]
    car.write_bytes(data)
    assert f"({code})" in culm.refused("import", car)
    assert culm("status") == []


def test_roots_of_every_kind(culm: Shell, car: Path) -> None:
    blocks = BlocksInMemory()
    leaf = blocks.raw(b"leaf")
    value = blocks.value({"link": leaf})
    identity = make_cid(1, 0x71, 0, encode_dag_cbor([value]))
    car.write_bytes(write_car([identity, leaf], blocks.items()))
    imported = culm.one("import", car)
    assert (imported["blocks"], imported["missing"]) == (2, [])
    for cid in (identity, leaf):
        assert culm.one("publish", cid.text)["state"] == "complete"
    # Identity CIDs are their blocks: a section of one changes nothing.
    inline = make_cid(1, RAW, 0, b"inline")
    car.write_bytes(write_car([inline], [(inline, b"inline")]))
    assert culm.one("import", car)["blocks"] == 0


def test_arguments_that_do_not_go_together(culm: Shell, car: Path, site: Path) -> None:
    car.write_bytes(bytes.fromhex(CARS["version 1"]["hex"]))
    culm("put", site)
    culm("export", "-o", site.parent / "backup")
    culm("import", site.parent / "backup", "--space", "ab" * 32, status=2)
    culm("import", car, "--kafka", status=2)
    culm("import", car, "--space", "abc", status=2)
    culm("export", "-o", site.parent / "x.car", "--root", "abc", status=2)


def test_a_large_car_is_cut_into_shards(culm: Shell, car: Path, tmp_path: Path) -> None:
    blocks = BlocksInMemory()
    leaves = [blocks.raw(bytes([number]) * 1_000_000) for number in range(5)]
    car.write_bytes(write_car([], blocks.items()))
    imported = culm.one("import", car)
    assert (imported["blocks"], imported["shards"]) == (5, 2)
    for cid in leaves:
        culm("get", cid.text, "-o", tmp_path / cid.text)
        assert (tmp_path / cid.text).read_bytes() == blocks[cid]


def test_what_the_disk_refuses_is_told_without_numbers(culm: Shell, site: Path, tmp_path: Path) -> None:
    culm("put", site)
    (tmp_path / "file").touch()
    message = culm.refused("delegate", "ab" * 32, "--output", tmp_path / "file" / "ucan")
    assert f"nothing can be written into {tmp_path / 'file'}: File exists" in message


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
    culm("get", root.text, "-o", tmp_path / "out")
    assert contents(tmp_path / "out") == {name: name.encode() for name in names}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dag", "out"]


@pytest.mark.parametrize("size", range(250, 256))
def test_a_name_as_long_as_a_disk_allows_comes_back(culm: Shell, tmp_path: Path, size: int) -> None:
    site = tmp_path / "site"
    (site / ("d" * size)).mkdir(parents=True)
    (site / ("n" * size)).write_text("long")
    (site / ("d" * size) / "z").write_text("below")
    put = culm.one("put", site)
    culm("get", put["cid"], "-o", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(site)
    culm("get", f"{put['cid']}/{'n' * size}", "-o", tmp_path / ("n" * size))
    assert (tmp_path / ("n" * size)).read_text() == "long"


def test_an_entry_that_no_disk_holds_is_left_out_by_name_and_the_others_are_written(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    below = blocks.directory([(blocks.raw(b"lost"), "x")])
    root = blocks.directory([(below, "n" * 256), (blocks.raw(b"a"), "a"), (blocks.raw(b"b"), "m" * 300)])
    culm.keep(root, blocks)
    row = culm.one("get", root.text, "-o", tmp_path / "out", "--json", status=3)
    assert [path for path, _ in row["left_out"]] == ["n" * 256, "m" * 300]
    assert contents(tmp_path / "out") == {"a": b"a"}
    assert "is left out: File name too long" in culm.refused(
        "get", root.text, "-o", tmp_path / "again", status=3
    )


def test_of_two_entries_of_one_name_the_first_counts(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    outside = blocks.symlink(os.fsencode(tmp_path / "outside"))
    first, second = blocks.raw(b"one"), blocks.raw(b"other")
    root = blocks.directory([(first, "x"), (second, "x"), (outside, "y"), (second, "y")])
    culm.keep(root, blocks)
    row = culm.one("get", root.text, "-o", tmp_path / "out", "--json", status=3)
    assert sorted(path for path, _ in row["left_out"]) == ["x", "y", "y"]
    assert contents(tmp_path / "out") == {"x": b"one"}
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("name", ["../out", "..", ".", "", "a/b", "a\0b", "/etc/x"])
def test_a_directory_with_a_name_that_leads_elsewhere_is_not_written(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path, name: str
) -> None:
    root = blocks.directory([(blocks.raw(b"x"), "a"), (blocks.raw(b"x"), name)])
    culm.keep(root, blocks)
    assert "a name that no file has" in culm.refused("get", root.text, "-o", tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["dag"]


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
        assert "exists already" in culm.refused("get", file.text, "-o", tmp_path / target)
        assert "exists already" in culm.refused("get", root.text, "-o", tmp_path / target)
    (tmp_path / "f").unlink()
    culm("get", file.text, "-o", tmp_path / "f")
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
        assert f"{target} exists already" in culm.refused("get", root.text, "-o", tmp_path / target)
    assert "exists already" in culm.refused("get", file.text, "-o", tmp_path / "folder")
    assert "nothing can be written into" in culm.refused("get", root.text, "-o", tmp_path / "file" / "out")
    assert contents(tmp_path / "folder") == {"mine": b"mine"}
    culm("get", file.text, "-o", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "new"
    culm("get", root.text, "-o", tmp_path / "deep" / "er")
    assert contents(tmp_path / "deep" / "er") == {"f": b"new"}


def test_a_directory_that_cannot_be_read_whole_leaves_nothing_behind(
    culm: Shell, blocks: BlocksInMemory, tmp_path: Path
) -> None:
    missing = blocks.raw(b"missing")
    root = blocks.directory([(blocks.raw(b"x"), "a"), (missing, "b")])
    del blocks[missing]
    culm.keep(root, blocks)
    culm("get", root.text, "-o", tmp_path / "out", status=1)
    assert [path.name for path in tmp_path.iterdir()] == ["dag"]


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
    culm("get", root.text, "-o", tmp_path / "out")
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
    row = culm.one("get", root.text, "-o", tmp_path / "out", "--json", status=3)
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
    culm("get", root.text, "-o", tmp_path / "out", status=3)
    assert list((tmp_path / "outside").iterdir()) == []
    assert culm.one("get", f"{root.text}/d", "--json")["kind"] == "symlink"
    culm("get", f"{root.text}/d", "-o", tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == os.fsencode(tmp_path / "outside")
