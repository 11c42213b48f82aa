"""The stores of single programs: written, and read back as plain values.

What is written follows from the code alone: no clock, no chance.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from culm_connectors.edge.keyfile import make_key
from culm_connectors.logs.index import LmdbLogStore, close_index, open_index
from culm_connectors.logs.ranges import RangeSnapshot
from culm_connectors.p2panda.reference_peer.peer import STORE_FOLDER
from culm_connectors.sds.participants.client import EventPosition
from culm_connectors.sds.participants.participant import Participant, ParticipantStep
from culm_connectors.sds.participants.state import StateFolder
from culm_infra.cli.sds import participation
from culm_infra.stack import record
from culm_infra.stack.process import ProcessIdentity
from culm_models.lifts import by_name
from culm_models.p2panda.operations.operation import peek
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_topics.kafka.origin import Origin
from culm_topics.logs.consumer.snapshot import Snapshot
from culm_topics.records import log_key
from culm_topics.sds.index_file import IndexFile
from tests.support.p2panda.histories import random_history
from tests.support.p2panda.logs import OTHER_SCHEMA, author, make_log
from tests.support.sds.topics import index_row

START_MS = 1_700_000_000_000
ORIGIN = Origin("frozen-cluster", {"culm.announcements": "a", "culm.entries": "b", "culm.logs": "c"})
NAMES = ("ann", "bob", "cyn", "dan")
BRINGERS = (b"p" * 32, b"q" * 32)
SDS_ORIGIN = "frozen topic"
PROFILES: tuple[Profile, ...] = ("spec", "js", "nim")
GROUP_ID, TOPIC, SELECTION = "culm.frozen", "culm.logs", "any"


def make_index(folder: Path) -> None:
    """A connector's index: documents of many authors, one whose create is missing, two schemas, quotas."""
    chance = random.Random(13)
    history = random_history(chance, 90, NAMES, deletes=0.2)
    (missing, *_) = [log for log, entries in history.logs.items() if entries[0].facts.action == "create"]
    arrivals = [arrival for arrival in history.arrivals(chance) if arrival.log != missing]
    long = make_log(author("eve"), 2**64 - 2, 40, schema_id=OTHER_SCHEMA)
    store = open_index(peek, folder, ORIGIN)
    for number, start in enumerate(range(0, len(arrivals), 10)):
        part = arrivals[start : start + 10]
        brought_by = [BRINGERS[number // 3 % 2]] * len(part) if number % 3 else []
        offsets = {("culm.entries", number % 2): start + 10, ("culm.logs", 1): start}
        store.adopt(store.commit(part, offsets, brought_by=brought_by))
    store.append(long)
    fork = make_log(author("eve"), 2**64 - 2, 3, text="true", after=long[:36], schema_id=OTHER_SCHEMA)
    store.adopt(store.commit(fork, {("culm.logs", 0): 2**40}, truth=True))
    close_index(store)


def index_as_read(store: LmdbLogStore) -> dict[str, Any]:
    """Everything that an index can be asked."""
    logs, entries = {}, {}
    schema_ids = sorted(store.schema_ids())
    for public_key, log_id, height in store.log_heights(schema_ids):
        info = store.log_info(public_key, log_id)
        assert info is not None
        pairs = list(store.entries(public_key, log_id, 1, height))
        hashes = [store.entry_hash(public_key, log_id, number + 1) for number in range(len(pairs))]
        logs[public_key, str(log_id)] = (height, info.schema_id, info.document_id, info.end_of_log)
        for name, (entry, operation) in zip(hashes, pairs, strict=True):
            assert name is not None
            position = store.place_of(name)
            entries[name] = (entry, operation, store.document_of(name), position and position[1:])
    authors = [author(name).public_key for name in (*NAMES, "eve")]
    documents = sorted({row[2] for row in logs.values() if row[2] is not None})
    return {
        "logs": logs,
        "entries": entries,
        "offsets": {(topic, str(number)): offset for (topic, number), offset in store.offsets().items()},
        "deletes": {document: list(store.deletes_of(document)) for document in documents},
        "log of": {(key, document): store.log_of(key, document) for key in authors for document in documents},
        "next log id": {key: store.next_log_id(key) for key in authors[:-1]},
        "usage": {(key, peer): store.usage(key, peer) for key in authors for peer in BRINGERS},
        "counts": store.counts(),
        "revision": store.revision,
        "fingerprints": {
            (schema_id, lift): _fingerprints(store.sync_range([schema_id], by_name(lift)))
            for schema_id in schema_ids
            for lift in ("add64", "add128", "xor64")
        },
        "contradictions": store.contradictions(),
    }


def _fingerprints(snapshot: RangeSnapshot) -> list[bytes]:
    return snapshot.fingerprints([(0, len(snapshot)), (0, 1), (len(snapshot) // 2, len(snapshot) // 2)])


def make_peer(folder: Path) -> None:
    """The home of `culm p2panda peer`: its key, and a store with a document of its own."""
    key_pair = make_key(folder, author("peer").private_key)
    store = LmdbLogStore(peek, folder / STORE_FOLDER, durable=True)
    store.append(make_log(key_pair, 0, 7))
    store.close()


def make_sds_index(folder: Path) -> None:
    """The index of the store of SDS: two channels, a deleted row, a hint, numbers at their ends."""
    file = open_sds_index(folder)
    for partition, channel_id in enumerate(("room", "größe")):
        file.begin(partition, 3)
        changes = [(channel_id, f"m{number}", index_row(number, number % 7)) for number in range(20)]
        last = (channel_id, "last", index_row(2**40, 2**64 - 1, "ben"))
        rows = [*changes, last, (channel_id, "m5", None)]
        assert file.apply(partition, 3, 3 + len(rows), list(enumerate(rows, 3)))
    file.close()


def read_index(folder: Path) -> dict[str, Any]:
    """What the index in a folder is read as."""
    store = open_index(peek, folder, ORIGIN)
    try:
        return index_as_read(store)
    finally:
        close_index(store)


def read_sds_index(folder: Path) -> dict[str, Any]:
    """What the index of the store in a folder is read as."""
    file = open_sds_index(folder)
    try:
        return sds_index_as_read(file)
    finally:
        file.close()


def open_sds_index(folder: Path) -> IndexFile:
    """The index of the store in a folder."""
    return IndexFile(folder / "sds-index.sqlite", SDS_ORIGIN)


def sds_index_as_read(file: IndexFile) -> dict[str, Any]:
    """Everything that the index can be asked."""
    return {
        channel_id: {
            "found": {
                message_id: _row(row)
                for message_id, row in sorted(file.find(channel_id, ["m1", "m5", "last"]).items())
            },
            "newest": file.newest(channel_id, 4),
            "page": [(message_id, _row(row)) for message_id, row in file.page(channel_id, (6, "m13"), 5)],
            "count": file.count(channel_id),
        }
        for channel_id in ("room", "größe", "none")
    } | {"reached": file.reached()}


def _row(row: Any) -> list[Any]:
    names = ("partition", "offset", "lamport_timestamp", "sender_id", "size", "check", "retrieval_hint")
    return [getattr(row, name) for name in names]


def make_participants(home: Path) -> None:
    """The home of `culm sds`: a key, a participant of each wire profile in mid-conversation, a place."""
    make_key(home, author("ann of the channels").private_key)
    for profile in PROFILES:
        ann = _opened(_folder(home, profile), profile, "ann")
        bob = _opened(home.with_name(f"bob-{profile}"), profile, "bob")
        talk(ann, bob, range(12))
        ann.snapshot()
        talk(ann, bob, range(12, 20))
        # Said and never heard, so that what follows on them waits for them.
        bob.send(b"unheard", START_MS + 90_000, nonce(200))
        ann.receive(_wire(bob.send(b"waits", START_MS + 90_002, nonce(201))), START_MS + 90_100, b"a hint")
        ann.send(b"unacknowledged", START_MS + 91_000, nonce(202))
        ann.stand_at(b"a cursor", START_MS + 91_001)
        ann.commit()
    participation._keep_place(_folder(home, "spec", hosted=True), EventPosition(17, b"cursor"))


def participant(home: Path, profile: Profile) -> Participant:
    """The participant of a home."""
    return _opened(_folder(home, profile), profile, "ann")


def place(home: Path) -> EventPosition:
    """Where the client of a home left off."""
    return participation._place(_folder(home, "spec", hosted=True))


def read_participants(home: Path) -> dict[str, Any]:
    """What each participant of a home is read as."""
    return {profile: participant_as_read(participant(home, profile)) for profile in PROFILES}


def participant_as_read(ann: Participant) -> dict[str, Any]:
    """What a participant knows, and what it does next: bytes that follow from all that it knows."""
    status = ann.status()
    known = {
        "told": [
            (
                logged.number,
                logged.own,
                logged.message_id,
                logged.sender_id,
                logged.content,
                logged.position,
                logged.time_ms,
            )
            for logged in ann.history()
        ],
        "told before": ann.logged_before,
        "cursor": ann.cursor,
        "log": status.log,
        "outgoing": [
            (message.message_id, message.state, message.attempts, message.next_due_ms)
            for message in status.outgoing
        ],
        "incoming": [(message.message_id, message.missing, message.since_ms) for message in status.incoming],
        "missing": [(wanted.entry.message_id, wanted.since_ms, wanted.attempts) for wanted in status.missing],
        "lost": status.lost,
        "filter": status.bloom_filter,
        "due": ann.next_due_ms(),
    }
    steps = [
        ann.send(b"goes on", START_MS + 92_000, nonce(300)),
        ann.tick(START_MS + 200_000),
        ann.tick(START_MS + 4_000_000),
    ]
    sent = [
        [(message.kind, message.message_id, message.wire) for message in step.output.send] for step in steps
    ]
    events = [[(event.kind, event.message_id) for event in step.output.events] for step in steps]
    return known | {"sent": sent, "events": events, "numbers": [logged.number for logged in steps[0].logged]}


def talk(ann: Participant, bob: Participant, rounds: range) -> None:
    """Both say something in turn; every third message of bob is lost on its way and fetched later."""
    late: list[bytes] = []
    for number in rounds:
        now_ms = START_MS + 2_500 * number
        bob.receive(_wire(ann.send(b"from ann %d" % number, now_ms, nonce(number))), now_ms + 10)
        wire = _wire(bob.send(b"from bob %d" % number, now_ms + 20, nonce(100 + number)))
        if number % 3 == 2:
            late.append(wire)
        else:
            ann.receive(wire, now_ms + 30)
        for speaker in (ann, bob):
            speaker.tick(now_ms + 40)
        ann.commit()
    for wire in late:
        ann.receive(wire, now_ms + 50, from_store=True)
    ann.commit()


def _wire(step: ParticipantStep) -> bytes:
    (wire,) = [message.wire for message in step.output.send if message.kind == "new"]
    return wire


def _opened(path: Path, profile: Profile, name: str) -> Participant:
    return Participant(
        StateFolder(path),
        "room",
        profile,
        name,
        settings=SdsSettings.for_profile(profile),
        now_ms=START_MS,
        seed=name.encode().ljust(32, b"-"),
    )


def _folder(home: Path, profile: Profile, *, hosted: bool = False) -> Path:
    flags = participation.ParticipantFlags(profile=profile, participant="ann", directory=home)
    return flags.identity("room", hosted=hosted).folder


def nonce(number: int) -> bytes:
    """The chance of a message, by number."""
    return number.to_bytes(16, "big")


def make_heights(folder: Path) -> None:
    """The heights that a group of consumers keeps."""
    snapshot = open_heights(folder)
    rows = [(log_key(author(name).public_key, 2**64 - 1), number, 0) for number, name in enumerate(NAMES)]
    snapshot.save({0: 42, 3: 0}, [*rows, (log_key(author("eve").public_key, 0), 2**64 - 1, 3)])
    snapshot.close()


def open_heights(folder: Path) -> Snapshot:
    """The heights of the fixture's group."""
    return Snapshot(folder, group_id=GROUP_ID, topic=TOPIC, origin=ORIGIN, selection=SELECTION)


def read_heights(folder: Path) -> dict[str, Any]:
    """What the heights in a folder are read as."""
    snapshot = open_heights(folder)
    try:
        return heights_as_read(snapshot)
    finally:
        snapshot.close()


def heights_as_read(snapshot: Snapshot) -> dict[str, Any]:
    """What is known of each partition."""
    return {str(partition): snapshot.load(partition) for partition in (0, 1, 3)}


STACK = record.StackRecord("frozen-cluster", 9092, 9093, 512, {"a.b": "c"}, True, ProcessIdentity(17, "then"))


def make_stack(folder: Path) -> None:
    """The record of a local stack."""
    record.write(folder / "stack.json", STACK)
