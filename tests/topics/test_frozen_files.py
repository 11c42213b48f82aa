"""The local SQLite files that an earlier program has written are used, not begun anew."""

from __future__ import annotations

from pathlib import Path

from tests.support.freeze import frozen, stores
from tests.support.sds.topics import index_row


def test_a_kept_index_of_the_store_answers_and_goes_on(tmp_path: Path) -> None:
    file = stores.open_sds_index(frozen.unpack("sds-index", tmp_path))
    frozen.assert_as_kept("sds-index", stores.sds_index_as_read(file))
    (first, *_) = sorted(file.reached().items())
    assert file.apply(*first, first[1] + 1, [(first[1], ("room", "next", index_row(7, 8)))])
    assert file.find("room", ["next", "m1"]).keys() == {"next", "m1"}
    file.close()


def test_the_kept_heights_of_a_group_are_loaded(tmp_path: Path) -> None:
    folder = frozen.unpack("consumer-heights", tmp_path)
    frozen.assert_as_kept("consumer-heights", stores.read_heights(folder))
