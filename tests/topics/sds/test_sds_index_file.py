"""The local file of the index: rows and offsets together, and a file in doubt is filled anew."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.sds.index_file import Change, IndexFile, IndexFileFailed, is_damaged
from tests.support.sds.topics import index_row

ORIGIN = "topic store"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "index.sqlite"


def filled(path: Path, *changes: Change, partition: int = 0) -> IndexFile:
    """A file in which these changes are offsets 0, 1, ... of the partition."""
    file = IndexFile(path, ORIGIN)
    file.begin(partition, 0)
    assert file.apply(partition, 0, len(changes), list(enumerate(changes)))
    return file


def test_what_was_put_in_is_found_and_what_was_deleted_is_not(path: Path) -> None:
    row, other = index_row(5, 100), index_row(6, 101, "ben")
    file = filled(path, ("one", "a", row), ("one", "b", other), ("two", "a", other), ("one", "b", None))
    assert file.find("one", ["a", "b", "c", "a"]) == {"a": row}
    assert file.find("two", ["a", "b"]) == {"a": other}
    assert file.find("three", ["a"]) == {}
    assert file.count("one") == 1
    assert file.reached() == {0: 4}
    file.close()
    again = IndexFile(path, ORIGIN)
    assert again.find("one", ["a"]) == {"a": row}
    assert again.reached() == {0: 4}


def test_the_last_row_of_a_message_counts(path: Path) -> None:
    file = filled(path, ("one", "a", index_row(5, 100)), ("one", "a", index_row(9, 90)))
    assert file.find("one", ["a"]) == {"a": index_row(9, 90)}
    assert file.newest("one", 5) == [(90, "a")]


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 3), st.text(min_size=1, max_size=4)),
        max_size=30,
        unique_by=lambda position: position[1],
    ),
    st.integers(1, 8),
)
def test_the_log_is_in_order_of_lamport_timestamp_then_bytes_of_the_id(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[int, str]], count: int
) -> None:
    changes = [("one", message_id, index_row(0, lamport)) for lamport, message_id in places]
    file = filled(tmp_path_factory.mktemp("index") / "index.sqlite", *changes)
    ordered = sorted(places, key=lambda position: (position[0], position[1].encode()))
    assert file.newest("one", count) == ordered[-count:]
    paged: list[tuple[int, str]] = []
    while page := file.page("one", paged[-1] if paged else None, count):
        paged += [(row.lamport_timestamp, message_id) for message_id, row in page]
    assert paged == ordered
    file.close()


def test_more_ids_than_one_question_takes_are_found(path: Path) -> None:
    file = filled(path, *[("one", f"m{number}", index_row(number, number)) for number in range(1_200)])
    assert len(file.find("one", [f"m{number}" for number in range(1_300)])) == 1_200


def test_a_program_that_is_behind_changes_nothing_back(path: Path) -> None:
    """Two programs share the file: the slower one brings records that the file already covers."""
    fast = filled(path, ("one", "a", index_row(5, 100)), ("one", "a", index_row(9, 90)))
    slow = IndexFile(path, ORIGIN)
    assert slow.apply(0, 0, 1, [(0, ("one", "a", index_row(5, 100)))])
    assert fast.find("one", ["a"]) == {"a": index_row(9, 90)}
    assert fast.reached() == {0: 2}
    assert slow.apply(0, 1, 3, [(1, ("one", "a", None)), (2, ("one", "b", index_row(1, 1)))])
    assert set(fast.find("one", ["a", "b"])) == {"a", "b"}


def test_a_reader_that_is_ahead_of_an_emptied_file_is_told(path: Path) -> None:
    file = filled(path, ("one", "a", index_row(5, 100)))
    other = IndexFile(path, "another topic")
    assert not file.apply(0, 1, 2, [(1, ("one", "b", index_row(6, 101)))])
    other.begin(0, 0)
    assert not file.apply(0, 1, 2, [(1, ("one", "b", index_row(6, 101)))])
    assert file.count("one") == 0


def test_rows_and_their_offset_are_written_together_or_not_at_all(path: Path) -> None:
    file = filled(path, ("one", "a", index_row(5, 100)))
    impossible = index_row(1 << 63, 101)  # more than SQLite's integers hold
    with pytest.raises(OverflowError):
        file.apply(0, 1, 3, [(1, ("one", "b", index_row(6, 101))), (2, ("one", "c", impossible))])
    assert file.find("one", ["b", "c"]) == {}
    assert file.reached() == {0: 1}


@pytest.mark.parametrize("origin", [ORIGIN, "another topic"])
def test_only_a_file_of_the_same_topics_is_kept(path: Path, origin: str) -> None:
    filled(path, ("one", "a", index_row(5, 100))).close()
    assert IndexFile(path, origin).count("one") == (1 if origin == ORIGIN else 0)


def test_a_file_of_another_layout_is_filled_anew(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE messages (something)")
        file.execute("PRAGMA user_version = 999")
    file.close()
    filled(path, ("one", "a", index_row(5, 100)))


def test_a_damaged_file_is_filled_anew(path: Path) -> None:
    changes: list[Change] = [("one", f"m{number}", index_row(number, number)) for number in range(500)]
    filled(path, *changes).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    path.write_bytes(b"not at all " * 3_000)
    assert IndexFile(path, ORIGIN).reached() == {}


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexFileFailed, match="file") as caught:
        IndexFile(tmp_path / "file" / "index.sqlite", ORIGIN)
    assert caught.value.code == "topics.sds.index_file"


@pytest.mark.parametrize("column", ["place", "sender_id", "check_bytes", "retrieval_hint"])
def test_a_row_of_other_kinds_of_values_is_damage(path: Path, column: str) -> None:
    file = filled(path, ("one", "a", index_row(5, 100)))
    value: object = b"\x00" if column in ("place", "sender_id") else "text"
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE messages SET {column} = ?", (value,))
    with pytest.raises(sqlite3.DatabaseError) as damage:
        file.find("one", ["a"])
    assert is_damaged(damage.value)
