"""The whole way: peers at two edges, QUIC, two connectors, Kafka, Spark, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_infra.demo.p2panda.audit import FORK_CODE, read_rejected
from culm_infra.demo.p2panda.plan import Fork
from culm_infra.errors import NotReached
from culm_topics.readers.partitions import read_to_end
from culm_topics.records import RejectedRecord, log_key
from tests.support.deployment.members import (
    audit,
    log_of,
    members,
    new_schema,
    until_all_hold,
    until_live,
    write_logs,
)
from tests.support.deployment.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_LENGTHS = (1, 3, 8, 20, 60, 2, 40, 13)
_ATTEMPTS = 4
_SOON_S, _BOTH_WITHIN_S = 5.0, 15.0


# In every run `test_demo` compares what peers at two edges hold.
@pytest.mark.soak
async def test_peers_at_two_edges_converge_byte_for_byte(world: World, tmp_path: Path) -> None:
    schema = new_schema("backbone")
    history = write_logs(1, schema, _LENGTHS)
    own = write_logs(2, schema, [1] * 4)
    async with members(tmp_path, schema, 4) as peers:
        for number, writer in enumerate(history):
            # One peer holds it all, the others a part of it or nothing.
            for step, peer in enumerate(peers):
                share = (step + number) % 4
                await peer.add(writer.entries[: len(writer.entries) * share // 3])
        for peer, writer in zip(peers, own, strict=True):
            await peer.add(writer.entries)
        for number, peer in enumerate(peers):
            peer.dial(world.edges[number % 2])
        await until_all_hold(world, history + own, *peers)
        await until_live(world, schema, *peers)
        for _ in range(10):
            for peer, writer in zip(peers, own, strict=True):
                await peer.write(writer)
        await audit(world, schema, history + own, peers)


async def test_a_fork_is_proven_with_both_branches(world: World, tmp_path: Path) -> None:
    for attempt in range(_ATTEMPTS):
        if await forked_at_two_edges(world, tmp_path / str(attempt), last=attempt == _ATTEMPTS - 1):
            return


async def forked_at_two_edges(world: World, folder: Path, *, last: bool) -> bool:
    """Bring one branch to each edge and follow the proof; False where an edge asked for one only.

    That is when it has read the other branch from `entries` before its own peer was heard: an edge has no
    reason to ask for a branch that is no longer than the one it has. The last attempt must succeed.
    """
    schema = new_schema("fork")
    (trunk, other) = write_logs(3, schema, [6, 12])
    branches = [trunk.branch(6), trunk.branch(6)]
    async with members(folder, schema, 2) as peers:
        for peer, branch in zip(peers, branches, strict=True):
            await peer.add(branch.entries)
            await peer.write(branch, 4)
            await peer.add(other.entries)
        firsts = [branch.entries[6][0] for branch in branches]

        def brought() -> int:
            values = [message.value or b"" for message in read_to_end(world.kafka, "entries")]
            return sum(any(first in value for value in values) for first in firsts)

        with world.frozen_jobs():
            for peer, edge in zip(peers, world.edges, strict=True):
                peer.dial(edge)
            await world.until(brought, "a branch on entries")
            try:
                await world.until(
                    lambda: brought() == 2,
                    "both branches on entries",
                    timeout_s=_BOTH_WITHIN_S if last else _SOON_S,
                )
            except NotReached:
                if last:
                    raise
                return False
        key = log_key(*log_of(trunk))
        await world.until(lambda: log_of(trunk) in read_rejected(world.kafka).forked, "a fork on rejected")
        fork = Fork(*log_of(trunk), common=6)
        await audit(world, schema, [trunk, other], peers, fork)
        records = [
            RejectedRecord.decode(message.value)
            for message in read_to_end(world.kafka, "rejected")
            if message.key == key
        ]
        proofs = [record for record in records if record.code == FORK_CODE and record.first is not None]
        assert any({proof.entry, proof.first} == set(firsts) and proof.seq_num == 7 for proof in proofs)
    return True
