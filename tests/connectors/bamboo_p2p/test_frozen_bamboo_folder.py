"""A folder and a bundle that an earlier program has written are read as they were, and gone on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from tests.support import frozen
from tests.support.freeze import bamboo_folder


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (bamboo_folder.FORMER, bamboo_folder.read_former),
        (bamboo_folder.NAME, bamboo_folder.read),
    ],
)
def test_a_folder_of_an_earlier_program_is_read_as_it_was_and_published_to(
    tmp_path: Path, name: str, read: Callable[[Path], dict[str, Any]]
) -> None:
    folder = frozen.unpack(name, tmp_path)
    frozen.assert_as_kept(name, read(folder))
    store = FolderStore(folder)
    log = bamboo_folder.LONG
    with store.exclusively():
        assert publish(store, bamboo_folder.AUTHOR, log[1], b"later").entry.seq_num == 21
    store.put_unverified(log, 9, 0, b"payload 8 of a frozen folder")
    assert store.verify_payload(log, 9)
    assert store.drop_payload(log, 1) == len(b"payload 0 of a frozen folder") and 1 in store.dropped(log)
    store.close()


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (bamboo_folder.FORMER_BUNDLE, bamboo_folder.read_former_bundle),
        (bamboo_folder.BUNDLE, bamboo_folder.read_bundle),
    ],
)
def test_a_bundle_of_an_earlier_program_is_taken_in(
    tmp_path: Path, name: str, read: Callable[[Path], dict[str, Any]]
) -> None:
    frozen.assert_as_kept(name, read(frozen.unpack(name, tmp_path)))
