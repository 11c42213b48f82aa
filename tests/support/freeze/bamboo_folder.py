"""A folder of Bamboo logs, and a bundle: all that either can hold, and what they are read as."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.bundle import BundleImport, export, import_bundle
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo.log_store import LogKey
from culm_models.keys import KeyPair

FORMER, FORMER_BUNDLE = "bamboo-folder-1", "bamboo-bundle-1"
"""Of format 1: what was dropped had no mark, and a bundle carried no proofs of forks."""
NAME, BUNDLE = "bamboo-folder-2", "bamboo-bundle-2"
BUNDLE_FILE, FORKED_FILE = "logs.bamboo", "forked.bamboo"
AUTHOR = KeyPair.generate(b"author of a frozen folder")
LONG, ENDED, FORKED = ((AUTHOR.public_key, log_id) for log_id in (0, 7, 2**64 - 1))


def fill(store: FolderStore) -> None:
    """A long log with payloads dropped and in parts, one that ended, and one that is forked."""
    with store.exclusively():
        for number in range(20):
            publish(store, AUTHOR, LONG[1], b"payload %d of a frozen folder" % number)
        publish(store, AUTHOR, ENDED[1], bytes(range(256)) * 2_048)
        publish(store, AUTHOR, ENDED[1], b"", end_of_log=True)
        publish(store, AUTHOR, FORKED[1], b"one")
        for seq_num in (3, 4, 9):
            store.drop_payload(LONG, seq_num)
        store.put_unverified(LONG, 9, 3, b"load")
        forged = sign_entry(
            AUTHOR,
            FORKED[1],
            1,
            b"other",
            skiplink=None,
            backlink=None,
            end_of_log=False,
            flavour=store.flavour,
        )
        entry = store.entry(FORKED, 1)
        assert entry is not None
        store.put_fork_proof(FORKED, (entry.entry_bytes, forged))


def make(folder: Path) -> None:
    """A folder, as the commands leave it."""
    store = FolderStore(folder, YASMF, clock_s=lambda: 1_700_000_000)
    fill(store)
    with store.exclusively():
        store.pause("address:192.0.2.7", is_paused=True)
    store.close()


def read(folder: Path) -> dict[str, Any]:
    """Everything that is in a folder."""
    store = FolderStore(folder)
    contents = held(store)
    contents["paused"] = sorted(store.paused)
    contents["dropped"] = {name_of(log): list(store.dropped(log)) for log in store.logs}
    contents["oldest"] = [
        [name_of(log), seq_num, size, at_s] for log, seq_num, size, at_s in store.oldest_payloads(3)
    ]
    store.close()
    return contents


def read_former(folder: Path) -> dict[str, Any]:
    """Everything that was in a folder of format 1."""
    store = FolderStore(folder)
    contents = held(store)
    store.close()
    return contents


def held(store: FolderStore) -> dict[str, Any]:
    """Everything that is in a store."""
    return {"flavour": store.flavour.name, "logs": {name_of(log): held_of(store, log) for log in store.logs}}


def name_of(log: LogKey) -> str:
    """A log, as the commands name it."""
    return f"{log[0].hex()}/{log[1]}"


def held_of(store: FolderStore, log: LogKey) -> dict[str, Any]:
    """All of a log."""
    numbers = [number for start, end in store.entries(log) for number in range(start, end)]
    entries = {number: entry for number in numbers if (entry := store.entry(log, number)) is not None}
    return {
        "entries": {number: entry.entry_bytes for number, entry in entries.items()},
        "payloads": {
            number: store.read_payload(log, number, 0, entry.entry.payload_size)
            for number, entry in entries.items()
            if store.has_payload(log, number)
        },
        "parts": {number: list(parts) for number, parts in store.partial_payloads(log).items()},
        "end_of_log": store.end_of_log(log),
        "fork_proof": store.fork_proof(log),
    }


def make_bundle(folder: Path) -> None:
    """A bundle with the end of a log, its pool, and those payloads that are held."""
    store = FolderStore(folder / "store", YAMF)
    fill(store)
    file = io.BytesIO()
    for _ in export(store, file, LONG, start=8, end=12, payloads=True):
        pass
    forked = io.BytesIO()
    for _ in export(store, forked, FORKED, payloads=True):
        pass
    (folder / FORKED_FILE).write_bytes(forked.getvalue())
    store.close()
    for path in (folder / "store").iterdir():
        path.unlink()
    (folder / "store").rmdir()
    (folder / BUNDLE_FILE).write_bytes(file.getvalue())


def read_bundle(folder: Path) -> dict[str, Any]:
    """What a new folder holds after the bundles were taken in."""
    store = FolderStore(folder / "store", YAMF)
    contents: dict[str, Any] = {}
    for name in (BUNDLE_FILE, FORKED_FILE):
        imported = BundleImport()
        with store.exclusively(), (folder / name).open("rb") as file:
            contents[name] = {"numbers": list(import_bundle(store, file, imported)), **asdict(imported)}
    contents["held"] = held(store)
    store.close()
    return contents


def read_former_bundle(folder: Path) -> dict[str, Any]:
    """What a new folder holds after the bundle of format 1 was taken in."""
    imported = BundleImport()
    store = FolderStore(folder / "store", YAMF)
    with store.exclusively(), (folder / BUNDLE_FILE).open("rb") as file:
        numbers = list(import_bundle(store, file, imported))
    counted = {name: value for name, value in asdict(imported).items() if "proofs" not in name}
    contents = {"numbers": numbers, "imported": counted, "held": held(store)}
    store.close()
    return contents
