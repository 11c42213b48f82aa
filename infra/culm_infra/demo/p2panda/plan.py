"""Who starts with what: overlapping prefixes, a real history, a fork, one peer with a narrower interest."""

from __future__ import annotations

import random
from dataclasses import dataclass

from culm_infra.demo.p2panda.history import (
    SCHEMAS,
    DemoLog,
    LogWriter,
    made_history,
    make_fields,
    make_writer,
    real_history,
)

EDGES = ("west", "east")
FORK_AFTER = 6
FORK_BRANCH_LENGTH = 4


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """One peer: the edge it dials (a place in ``EDGES``), what it announces, holds and writes live."""

    name: str
    edge: int
    schema_ids: tuple[str, ...]
    logs: tuple[DemoLog, ...]
    writer: LogWriter

    @property
    def edge_name(self) -> str:
        """The edge's name."""
        return EDGES[self.edge]


@dataclass(frozen=True, slots=True)
class Fork:
    """A log with two branches: everything up to ``common`` entries is shared."""

    public_key: bytes
    log_id: int
    common: int

    @property
    def log(self) -> tuple[bytes, int]:
        """Public key and log id."""
        return self.public_key, self.log_id


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole cast. ``logs`` is all histories but the forked log; ``trunk`` is what is common of that."""

    peers: tuple[PeerPlan, ...]
    logs: tuple[DemoLog, ...]
    trunk: DemoLog
    fork: Fork

    @property
    def schema_ids(self) -> tuple[str, ...]:
        """Every schema that somebody announces."""
        return tuple(sorted({schema for peer in self.peers for schema in peer.schema_ids}))


def make_plan(peer_count: int, entry_count: int, seed: int) -> Plan:
    """A plan for ``peer_count`` (2 or more) peers that start with about ``entry_count`` entries in all.

    Every log starts at some peer in full; others hold a prefix of it with even odds. The first peer brings
    the real history. The first two peers bring the two branches of a forked log, each to its own edge. The
    last of three or more peers does not care for the last made schema.
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

    held: list[list[DemoLog]] = [[] for _ in range(peer_count)]
    held[0].extend(real)
    for peer, branch in enumerate(branches):
        held[peer].append(branch.log())
    interests = [every_schema] * peer_count
    if peer_count > 2:
        interests[-1] = narrow_schema
    for log in logs:
        keen = [peer for peer in range(peer_count) if log.schema_id in interests[peer]]
        owner = source.choice(keen)
        held[owner].append(log)
        for peer in keen:
            if peer != owner and source.random() < 0.5:
                count = source.randrange(len(log.entries) + 1)
                if count:
                    held[peer].append(log.prefix(count))

    peers = tuple(
        PeerPlan(
            name=f"peer-{index + 1}",
            edge=index % len(EDGES),
            schema_ids=interests[index],
            logs=tuple(held[index]),
            writer=make_writer(source, 1 << 32, SCHEMAS[index % 2], 1),
        )
        for index in range(peer_count)
    )
    fork = Fork(trunk.key_pair.public_key, trunk.log_id, FORK_AFTER)
    return Plan(peers, tuple(real + logs), trunk.log(), fork)
