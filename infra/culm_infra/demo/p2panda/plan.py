"""The initial histories, made from a seed and a recorded history, and their distribution among the peers.

A history is a list of `DemoLog`: the entries and operations of an author in sequence order, each a valid
p2panda operation of one document in one schema.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources

from culm_models.bamboo import hash_bytes, lipmaa, needs_skiplink, sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import Value, encode_operation

EntryPair = tuple[bytes, bytes]

_WORDS = [
    "reed",
    "culm",
    "node",
    "sheath",
    "blade",
    "root",
    "stem",
    "shoot",
    "grove",
    "canopy",
    "clump",
    "leaf",
    "rhizome",
    "bud",
    "internode",
]


def schema_id(name: str) -> str:
    """Return an application schema id whose view is the hash of its name: enough for peers to agree on."""
    return f"{name}_{hash_bytes(name.encode()).hex()}"


SCHEMAS = tuple(schema_id(name) for name in ("venue", "event", "note"))


@dataclass(frozen=True, slots=True)
class DemoLog:
    """One log: ``entries`` are (entry, operation) bytes from sequence number 1 on."""

    public_key: bytes
    log_id: int
    schema_id: str
    entries: tuple[EntryPair, ...]

    def prefix(self, count: int) -> DemoLog:
        """Return this log, cut after ``count`` entries."""
        return DemoLog(self.public_key, self.log_id, self.schema_id, self.entries[:count])


class DemoLogWriter:
    """Writes a log of one document: a CREATE, then an UPDATE for every further entry.

    A second log of the document starts with an UPDATE.
    """

    def __init__(self, key_pair: KeyPair, log_id: int, schema: str) -> None:
        self.key_pair = key_pair
        self.log_id = log_id
        self.schema_id = schema
        self.entries: list[EntryPair] = []
        self._hashes: list[bytes] = []

    @property
    def latest(self) -> bytes:
        """Operation id of the newest entry."""
        return self._hashes[-1]

    def append(self, fields: dict[str, Value], previous: Sequence[bytes] = ()) -> EntryPair:
        """Sign one more operation with these fields. Returns its entry and operation.

        It follows `previous`, by default the newest operation of this log.
        """
        seq_num = len(self.entries) + 1
        follows = tuple(sorted(previous)) or tuple(self._hashes[-1:])
        operation = encode_operation(
            "update" if follows else "create", self.schema_id, previous=follows or None, fields=fields
        )
        entry = sign_entry(
            self.key_pair,
            self.log_id,
            seq_num,
            operation,
            skiplink=self._hashes[lipmaa(seq_num) - 1] if needs_skiplink(seq_num) else None,
            backlink=self._hashes[-1] if seq_num > 1 else None,
        )
        self.entries.append((entry, operation))
        self._hashes.append(hash_bytes(entry))
        return entry, operation

    def branch(self, count: int) -> DemoLogWriter:
        """Return a writer with the same key that knows the first ``count`` entries: the start of a fork."""
        other = DemoLogWriter(self.key_pair, self.log_id, self.schema_id)
        other.entries = self.entries[:count]
        other._hashes = self._hashes[:count]
        return other

    def log(self) -> DemoLog:
        """Return the log written so far."""
        return DemoLog(self.key_pair.public_key, self.log_id, self.schema_id, tuple(self.entries))


def make_writer(source: random.Random, log_id: int, schema: str, length: int) -> DemoLogWriter:
    """Write a log of ``length`` entries by a new author."""
    writer = DemoLogWriter(KeyPair.from_private_key(source.randbytes(32)), log_id, schema)
    for _ in range(length):
        writer.append(make_fields(source))
    return writer


def make_fields(source: random.Random) -> dict[str, Value]:
    """Return fields as small applications have them: some 60 to 200 bytes."""
    return {
        "title": " ".join(source.choices(_WORDS, k=source.randint(2, 8))),
        "body": " ".join(source.choices(_WORDS, k=source.randint(4, 16))),
        "count": source.randrange(1 << 16),
        "done": source.random() < 0.5,
    }


def made_history(source: random.Random, entry_count: int) -> list[DemoLogWriter]:
    """Write about ``entry_count`` entries in logs of 1 to 60 entries over the three schemas."""
    writers: list[DemoLogWriter] = []
    left = entry_count
    while left > 0:
        length = min(left, source.choice((1, 3, 8, 20, 60)))
        writers.append(make_writer(source, source.randrange(4), SCHEMAS[len(writers) % len(SCHEMAS)], length))
        left -= length
    return writers


def real_history() -> list[DemoLog]:
    """Return the logs that the official p2panda library made (see ``data/README.md``)."""
    text = resources.files(__package__).joinpath("data/p2panda_history.json").read_text()
    return [
        DemoLog(
            bytes.fromhex(row["public_key"]),
            int(row["log_id"]),
            row["schema_id"],
            tuple((bytes.fromhex(entry), bytes.fromhex(operation)) for entry, operation in row["entries"]),
        )
        for row in json.loads(text)
    ]


def entries_of(logs: list[DemoLog]) -> Iterator[EntryPair]:
    """Yield all entries, log after log."""
    for log in logs:
        yield from log.entries


EDGES = ("west", "east")
FORK_AFTER = 6
FORK_BRANCH_LENGTH = 4


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """One peer: the edge it dials (an index in ``EDGES``), its schemas, its logs, and its live writer."""

    name: str
    edge: int
    schema_ids: tuple[str, ...]
    logs: tuple[DemoLog, ...]
    writer: DemoLogWriter

    @property
    def edge_name(self) -> str:
        """The edge's name."""
        return EDGES[self.edge]


@dataclass(frozen=True, slots=True)
class Fork:
    """A log with two branches that share the first ``common`` entries."""

    public_key: bytes
    log_id: int
    common: int

    @property
    def log(self) -> tuple[bytes, int]:
        """Public key and log id."""
        return self.public_key, self.log_id


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """All peers and histories. ``logs``: all histories except the forked log; ``trunk``: its common part.

    ``editors`` write the logs of the document that the first two peers edit; both logs are empty at first.
    """

    peers: tuple[PeerPlan, ...]
    logs: tuple[DemoLog, ...]
    trunk: DemoLog
    fork: Fork
    editors: tuple[DemoLogWriter, DemoLogWriter]

    @property
    def schema_ids(self) -> tuple[str, ...]:
        """All schemas that a peer announces."""
        return tuple(sorted({schema for peer in self.peers for schema in peer.schema_ids}))


def make_plan(peer_count: int, entry_count: int, seed: int) -> DemoPlan:
    """Plan ``peer_count`` (2 or more) peers that start with about ``entry_count`` entries in all.

    Every log is complete at one peer; each other peer holds a prefix of it with a probability of one half.
    The first peer also has the recorded history. The first two peers have the two branches of a forked log,
    each at its own edge. With three or more peers, the last one does not announce the last generated schema.
    """
    assert peer_count >= 2, "replication takes two"
    source = random.Random(seed)
    real = real_history()
    logs = [writer.log() for writer in made_history(source, entry_count)]
    every_schema = tuple(sorted({log.schema_id for log in real} | set(SCHEMAS)))
    narrow_schema = tuple(schema for schema in every_schema if schema != SCHEMAS[-1])

    trunk = make_writer(source, 0, SCHEMAS[0], FORK_AFTER)
    branches = [trunk.branch(FORK_AFTER), trunk.branch(FORK_AFTER)]
    for branch in branches:
        for _ in range(FORK_BRANCH_LENGTH):
            branch.append(make_fields(source))

    logs_of: list[list[DemoLog]] = [[] for _ in range(peer_count)]
    logs_of[0].extend(real)
    for peer, branch in enumerate(branches):
        logs_of[peer].append(branch.log())
    interests = [every_schema] * peer_count
    if peer_count > 2:
        interests[-1] = narrow_schema
    for log in logs:
        keen = [peer for peer in range(peer_count) if log.schema_id in interests[peer]]
        owner = source.choice(keen)
        logs_of[owner].append(log)
        for peer in keen:
            if peer != owner and source.random() < 0.5:
                count = source.randrange(len(log.entries) + 1)
                if count:
                    logs_of[peer].append(log.prefix(count))

    peers = tuple(
        PeerPlan(
            name=f"peer-{index + 1}",
            edge=index % len(EDGES),
            schema_ids=interests[index],
            logs=tuple(logs_of[index]),
            writer=make_writer(source, 1 << 32, SCHEMAS[index % 2], 1),
        )
        for index in range(peer_count)
    )
    fork = Fork(trunk.key_pair.public_key, trunk.log_id, FORK_AFTER)
    editors = make_writer(source, 0, SCHEMAS[0], 0), make_writer(source, 0, SCHEMAS[0], 0)
    return DemoPlan(peers, tuple(real + logs), trunk.log(), fork, editors)
