"""What a folder holds stands in runs: they say what the rows say, whoever wrote; opening reads them alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE
from culm_models.bamboo.hashes import YASMF
from culm_models.bamboo.range_set import RangeSet
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author of runs")
LOG = (AUTHOR.public_key, 0)
LENGTH = 24


def payload(seq_num: int) -> bytes:
    return b"%d;" % seq_num * (seq_num % 4)


def whole_log() -> list[HeldEntry]:
    with TemporaryDirectory() as folder:
        store = FolderStore(Path(folder), YASMF)
        with store.exclusively():
            log = [publish(store, AUTHOR, 0, payload(number)) for number in range(1, LENGTH + 1)]
        store.close()
    return log


ENTRIES = whole_log()
numbers = st.integers(1, LENGTH)
steps = st.lists(
    st.tuples(st.sampled_from(("entry", "run", "part", "whole", "drop", "want", "commit")), numbers, numbers),
    max_size=30,
)


def rows_of(folder: Path) -> tuple[set[int], set[int], int]:
    with sqlite3.connect(folder / DATABASE_FILE) as database:
        entries = {int.from_bytes(key, "big") for (key,) in database.execute("SELECT seq_num FROM entries")}
        held_rows = database.execute("SELECT seq_num, size FROM payloads WHERE is_held = 1").fetchall()
        parts = database.execute(
            "SELECT ifnull(sum(length(data)), 0) FROM parts JOIN payloads USING (payload) WHERE is_held = 0"
        ).fetchone()[0]
    database.close()
    return entries, {int.from_bytes(key, "big") for key, _ in held_rows}, parts


def members(runs: RangeSet) -> set[int]:
    return {number for start, end in runs for number in range(start, end)}


def do(store: FolderStore, step: str, first: int, second: int) -> None:
    entry = ENTRIES[first - 1]
    if step == "entry":
        store.put_entry(LOG, entry)
    elif step == "run":
        last = min(first + 3, LENGTH)
        run = range(first, last + 1)
        if not any(number in store.entries(LOG) for number in run):
            store.put_verified(LOG, [(ENTRIES[number - 1], payload(number)) for number in run])
    elif step == "want":
        store.want_again(LOG, min(first, second), max(first, second))
    elif step == "commit":
        store.commit()
    elif first in store.entries(LOG):
        if step == "drop":
            store.drop_payload(LOG, first)
        elif not store.has_payload(LOG, first):
            store.put_unverified(LOG, first, 0, payload(first)[: None if step == "whole" else 2])
            if step == "whole":
                store.verify_payload(LOG, first)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_runs_say_what_the_rows_say(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        store = FolderStore(folder, YASMF)
        for step in steps:
            do(store, *step)
        store.commit()
        entries, payloads, spooled = rows_of(folder)
        again = FolderStore(folder)
        for opened_store in (store, again):
            assert members(opened_store.entries(LOG)) == entries
            assert members(opened_store.payloads(LOG)) == payloads
            assert {
                number
                for number in range(1, LENGTH + 1)
                if opened_store.end_of_held_payloads(LOG, number) > number
            } == payloads
            assert opened_store.spooled_bytes == spooled
            assert opened_store.payload_bytes() == sum(len(payload(number)) for number in payloads)
        assert list(again.entries(LOG)) == list(store.entries(LOG))
        assert list(again.dropped(LOG)) == list(store.dropped(LOG))
        store.close()
        again.close()


def test_runs_of_two_processes_are_one(tmp_path: Path) -> None:
    first, other = FolderStore(tmp_path, YASMF), FolderStore(tmp_path, YASMF)
    for number in range(1, 9):
        store = (first, other)[number % 2]
        store.put_entry(LOG, ENTRIES[number - 1])
        store.commit()
    # What the other has put in meanwhile is taken for what it is.
    first.put_verified(LOG, [(ENTRIES[8], payload(9)), (ENTRIES[9], payload(10))])
    first.commit()
    other.put_verified(LOG, [(ENTRIES[8], payload(9)), (ENTRIES[9], payload(10))])
    other.commit()
    assert list(other.entries(LOG)) == [(1, 11)] and list(other.payloads(LOG)) == [(9, 11)]
    assert other.payload_bytes() == len(payload(9) + payload(10))
    first.refresh()
    assert list(first.entries(LOG)) == [(1, 11)]
    third = FolderStore(tmp_path)
    assert list(third.entries(LOG)) == [(1, 11)] and third.payload_bytes() == other.payload_bytes()
    for store in (first, other, third):
        store.close()


def test_what_others_committed_is_told_by_refresh_also_if_it_was_read_before(tmp_path: Path) -> None:
    first, other = FolderStore(tmp_path, YASMF), FolderStore(tmp_path, YASMF)
    first.put_entry(LOG, ENTRIES[0])
    first.commit()
    other.put_entry(LOG, ENTRIES[1])
    other.commit()
    assert list(other.refresh().entries) == [(LOG, 1)] and not other.refresh()
    first.close()
    other.close()


def test_opening_a_folder_reads_no_row_of_an_entry(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, YASMF)
    store.put_verified(LOG, [(entry, payload(number)) for number, entry in enumerate(ENTRIES, 1)])
    store.commit()
    store.close()
    with sqlite3.connect(tmp_path / DATABASE_FILE) as database:
        database.execute("ALTER TABLE entries RENAME TO elsewhere")
    database.close()
    again = FolderStore(tmp_path)
    assert list(again.entries(LOG)) == list(again.payloads(LOG)) == [(1, LENGTH + 1)]
    again.close()
