"""A home of `culm sds` that an earlier program has left: its participants stand where they stood."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.edge.keyfile import load_key
from culm_connectors.sds.participants.client import Place
from tests.support import frozen
from tests.support.freeze import stores
from tests.support.logs import author


def test_kept_participants_go_on_with_the_same_bytes(tmp_path: Path) -> None:
    home = frozen.unpack("participants", tmp_path)
    frozen.assert_as_kept("participants", stores.read_participants(home))


def test_the_key_of_a_kept_home_and_the_place_of_its_client_are_found(tmp_path: Path) -> None:
    home = frozen.unpack("participants", tmp_path)
    assert load_key(home).public_key == author("ann of the channels").public_key
    assert stores.place(home) == Place(17, b"cursor")
