"""A folder of logs: what it keeps over a crash and from earlier programs, proves, and gives away."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.bundle import (
    LINK_MISSING,
    PAYLOAD_INVALID,
    PROOF_BOGUS,
    BundleImport,
    export,
    import_bundle,
)
from culm_connectors.bamboo_p2p.errors import BundleError, FolderError, LogEnded
from culm_connectors.bamboo_p2p.interest import FollowedLog, proposals
from culm_connectors.bamboo_p2p.proof import prove
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE, Checkpoints
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.forks import fork_of
from culm_models.keys import KeyPair
from tests.support.freeze import bamboo_folder, frozen

AUTHOR = KeyPair.generate(b"author of a folder")
LOG = (AUTHOR.public_key, 0)


def with_log(folder: Path, length: int) -> FolderStore:
    store = FolderStore(folder, YASMF)
    with store.exclusively():
        for number in range(length):
            publish(store, AUTHOR, 0, b"payload %d" % number)
    return store


def bundle(store: FolderStore, **fields: int) -> io.BytesIO:
    file = io.BytesIO()
    for _ in export(store, file, LOG, payloads=True, **fields):
        pass
    file.seek(0)
    return file


def imported(store: FolderStore, file: io.BytesIO) -> BundleImport:
    counted = BundleImport()
    with store.exclusively():
        for _ in import_bundle(store, file, counted):
            pass
    return counted


def test_what_was_not_committed_is_not_there_and_the_rest_is(tmp_path: Path) -> None:
    store = with_log(tmp_path, 3)
    store.drop_payload(LOG, 2)
    store.put_unverified(LOG, 2, 0, b"payl")
    store.commit()
    store.put_unverified(LOG, 2, 4, b"oad")
    store.close()
    again = FolderStore(tmp_path)
    assert list(again.unverified(LOG, 2)) == [(0, 4)] and not again.dropped(LOG)
    assert [(proposal.start, proposal.offset) for proposal in proposals(FollowedLog(LOG), again)] == [
        (2, 4),
        (4, None),
    ]
    again.put_unverified(LOG, 2, 4, b"oad 1")
    assert again.verify_payload(LOG, 2)
    assert again.read_payload(LOG, 2, 3, 4) == b"load"
    again.close()


def test_what_was_dropped_is_not_asked_for_unless_it_is_wanted_again(tmp_path: Path) -> None:
    with_log(tmp_path, 6).close()
    store = FolderStore(tmp_path, clock_s=lambda: 7)
    for seq_num in (3, 4):
        assert store.drop_payload(LOG, seq_num) == len(b"payload 2")
    store.commit()
    store.close()
    store = FolderStore(tmp_path)
    assert list(store.dropped(LOG)) == [(3, 5)] and store.log_bytes(LOG) == 4 * len(b"payload 2")
    wanted = FollowedLog(LOG)
    assert [proposal.start for proposal in proposals(wanted, store)] == [7]
    again = proposals(replace(wanted, again=True), store)
    assert [(proposal.start, proposal.end, proposal.payload_only) for proposal in again] == [
        (3, 4, True),
        (7, None, False),
    ]
    store.want_again(LOG, 4, 4)
    assert [proposal.start for proposal in proposals(wanted, store)] == [4, 7]
    store.put_unverified(LOG, 3, 0, b"payload 2")
    assert store.verify_payload(LOG, 3) and not store.dropped(LOG)
    store.close()


def test_a_request_for_what_is_missing_goes_around_what_was_dropped(tmp_path: Path) -> None:
    source, other = with_log(tmp_path / "one", 12), FolderStore(tmp_path / "other", YASMF)
    imported(other, bundle(source, start=8, end=9))
    for seq_num in (8, 9):
        other.drop_payload(LOG, seq_num)
    asked = proposals(FollowedLog(LOG), other)
    entries = [(wanted.start, wanted.end) for wanted in asked if not wanted.payload_only]
    assert entries == [(2, 7), (other.end_of_held_entries(LOG, 10), None)]
    payloads = [(wanted.start, wanted.end) for wanted in asked if wanted.payload_only]
    assert not any(first <= 9 and (last or 8) >= 8 for first, last in payloads)
    source.close()
    other.close()


def test_parts_that_come_twice_and_out_of_order_make_one_payload(tmp_path: Path) -> None:
    store = with_log(tmp_path, 1)
    store.drop_payload(LOG, 1)
    for offset, data in ((5, b"xx"), (0, b"pay"), (2, b"yload"), (7, b" 0")):
        store.put_unverified(LOG, 1, offset, data)
    assert store.read_payload(LOG, 1, 0, 100) == b"payload 0" and store.verify_payload(LOG, 1)
    store.close()


def test_payloads_that_are_wrong_are_forgotten(tmp_path: Path) -> None:
    store = with_log(tmp_path, 1)
    store.drop_payload(LOG, 1)
    store.put_unverified(LOG, 1, 0, b"payload 1")
    assert not store.verify_payload(LOG, 1)
    assert not store.unverified(LOG, 1) and not store.has_payload(LOG, 1)
    store.close()


def test_nothing_follows_the_end_of_a_log(tmp_path: Path) -> None:
    store = with_log(tmp_path, 1)
    with store.exclusively():
        publish(store, AUTHOR, 0, b"", end_of_log=True)
    with pytest.raises(LogEnded), store.exclusively():
        publish(store, AUTHOR, 0, b"more")
    assert store.highest_entry(LOG) == 2 and store.end_of_log(LOG) == 2
    store.close()


def test_a_folder_of_the_other_flavour_or_of_another_format_is_refused(tmp_path: Path) -> None:
    with_log(tmp_path, 1).close()
    with pytest.raises(FolderError, match="yasmf"):
        FolderStore(tmp_path, YAMF)
    database = sqlite3.connect(tmp_path / DATABASE_FILE)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(FolderError, match="format 99"):
        FolderStore(tmp_path)


def test_a_bundle_brings_a_range_with_what_proves_it_and_says_what_is_known(tmp_path: Path) -> None:
    source, other = with_log(tmp_path / "one", 50), FolderStore(tmp_path / "other", YASMF)
    first = imported(other, bundle(source, start=23, end=25))
    assert (first.new_payloads, first.known_entries, first.refused.total()) == (3, 0, 0)
    assert all(prove(other, LOG, seq_num).is_proven for seq_num in (23, 25))
    second = imported(other, bundle(source))
    assert second.new_entries + second.known_entries == 50 and second.known_payloads == 3
    assert not second.refused and other.end_of_held_entries(LOG, 1) == 51
    source.close()
    other.close()


def test_what_is_wrong_in_a_bundle_is_refused_by_its_code(tmp_path: Path) -> None:
    source, other = with_log(tmp_path / "one", 2), FolderStore(tmp_path / "other", YASMF)
    data = bundle(source).getvalue()
    altered = io.BytesIO(data.replace(b"payload 1", b"payload 7"))
    assert imported(other, altered).refused == {PAYLOAD_INVALID: 1}
    first = data.index(b"p", len(b"culm bamboo 2\nyasmf\n"))
    second = data.index(b"payload 0") + len(b"payload 0")
    without_first = data[:first] + data[second:-8] + (1).to_bytes(8, "big")
    third = FolderStore(tmp_path / "third", YASMF)
    assert imported(third, io.BytesIO(without_first)).refused == {LINK_MISSING: 1}
    with pytest.raises(BundleError, match="too early"):
        imported(FolderStore(tmp_path / "fourth", YASMF), io.BytesIO(data[:-12]))
    for store in (source, other, third):
        store.close()


def forged(store: FolderStore, seq_num: int) -> bytes:
    """Another entry of this number by the author itself."""
    stored = store.entry(LOG, seq_num)
    assert stored is not None
    entry = stored.entry
    return sign_entry(
        AUTHOR,
        LOG[1],
        seq_num,
        b"another",
        skiplink=entry.skiplink,
        backlink=entry.backlink,
        end_of_log=False,
        flavour=YASMF,
    )


def test_a_bundle_carries_the_proof_of_a_fork_and_who_takes_it_in_checks_it(tmp_path: Path) -> None:
    source, other = with_log(tmp_path / "one", 6), FolderStore(tmp_path / "other", YASMF)
    entry = source.entry(LOG, 5)
    assert entry is not None
    source.put_fork_proof(LOG, (entry.entry_bytes, forged(source, 5)))
    source.commit()
    file = bundle(source)
    assert imported(other, file).new_proofs == 1
    file.seek(0)
    assert imported(other, file).known_proofs == 1
    assert other.fork_proof(LOG) == source.fork_proof(LOG) and fork_of(other, LOG) == 5
    assert prove(other, LOG, 4).is_proven and not prove(other, LOG, 5).is_proven
    bogus = FolderStore(tmp_path / "bogus", YASMF)
    first = source.entry(LOG, 4)
    assert first is not None
    proof = b"".join(len(data).to_bytes(4, "big") + data for data in (first.entry_bytes, entry.entry_bytes))
    file = io.BytesIO(b"culm bamboo 2\nyasmf\nf" + proof + b"." + (1).to_bytes(8, "big"))
    assert imported(bogus, file).refused == {PROOF_BOGUS: 1} and not bogus.fork_proof(LOG)
    for store in (source, other, bogus):
        store.close()


def test_an_entry_is_not_proven_while_an_element_of_its_pool_is_missing(tmp_path: Path) -> None:
    source, other = with_log(tmp_path / "one", 13), FolderStore(tmp_path / "other", YASMF)
    for seq_num in (1, 4, 8):
        entry = source.entry(LOG, seq_num)
        assert entry is not None
        other.put_entry(LOG, entry)
    last = source.entry(LOG, 13)
    assert last is not None
    other.put_entry(LOG, last)
    assert not prove(other, LOG, 8).is_proven and 12 in prove(other, LOG, 8).missing
    source.close()
    other.close()


TABLE = "CREATE TABLE numbers (number INTEGER)"


def rows_without_log(path: Path) -> int:
    """How many rows the database has without its write-ahead log."""
    alone = path.with_suffix(".alone")
    shutil.copyfile(path, alone)
    database = sqlite3.connect(alone)
    try:
        return int(database.execute("SELECT count(*) FROM numbers").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not even the table has come
    finally:
        database.close()


@pytest.mark.parametrize(("commits", "rows"), [(31, 0), (32, 32)])
def test_every_32nd_commit_is_followed_by_a_checkpoint(tmp_path: Path, commits: int, rows: int) -> None:
    path = tmp_path / "numbers.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(TABLE)
    checkpoints = Checkpoints(database, path)
    version = database.execute("PRAGMA data_version").fetchone()
    for number in range(commits):
        database.execute("INSERT INTO numbers VALUES (?)", (number,))
        checkpoints.count_commit()
    checkpoints.close()
    assert rows_without_log(path) == rows
    assert database.execute("PRAGMA data_version").fetchone() == version
    database.close()


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
