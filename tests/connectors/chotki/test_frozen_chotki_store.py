"""The store of an edge that an earlier program has written is served as it was, and goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from culm_connectors.chotki.local_state import layout
from tests.support import frozen
from tests.support.freeze import chotki_store


def test_a_kept_store_of_this_format_is_served_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert layout.FORMAT == 1, "make the fixture anew, and keep this one beside it"
    with caplog.at_level(logging.INFO):
        found = chotki_store.read(frozen.unpack(chotki_store.NAME, tmp_path))
    assert not caplog.records, "neither in doubt, nor dropped"
    frozen.assert_as_kept(chotki_store.NAME, found)
