"""What is missing is known without a scan, and how much may wait for it is bounded (3.4), in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.author import append_shards, join_heads
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.edge.fair_turns import calling
from culm_models.dag.blocks.cid import CAR, Cid, cid_from_bytes, cid_of
from culm_models.dag.errors import NothingToJoin
from culm_models.dag.replica.codec import decode_node, encode_append
from culm_models.dag.replica.node import ReplicaNode
from culm_models.dag.wire.messages import AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, draw_scenario
from tests.models.dag.signers import DIDS, KEYS, publish, ucan

SPACE, OTHER_SPACE = SPACES[0], SPACES[1]
PEER, OTHER = SEEDS[0], SEEDS[1]


def opened(path: Path, **settings: Any) -> DagFolder:
    return DagFolder(path / "dags", DagFolderSettings(**settings), create=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DagFolder]:
    made = opened(tmp_path)
    yield made
    made.close()


def put(folder: DagFolder, *blocks: bytes, peer: bytes | None = PEER, at: int = NOW) -> list[AckStatus]:
    outcomes = folder.put_blocks(SPACE, blocks, received_at=at, peer=peer)
    assert {outcome.code for outcome in outcomes if outcome.status is AckStatus.LATER} <= {"dag.waiting_full"}
    return [outcome.status for outcome in outcomes]


def chain(length: int, number: int = 0) -> list[ReplicaNode]:
    """A root, and what builds on it, one on the other."""
    nodes = [encode_append([cid_of(CAR, number.to_bytes(4, "big"))])]
    for _ in range(length - 1):
        nodes.append(encode_append([], nodes[-1].cid))
    return nodes


def scanned_missing(folder: DagFolder, space: bytes) -> list[Cid]:
    """The rule, by a scan."""
    query = (
        "SELECT DISTINCT l.named FROM places p JOIN links l ON l.child = p.node "
        "LEFT JOIN nodes n ON n.cid = l.named WHERE p.space = ?1 AND (n.node IS NULL OR "
        "(n.kind != 'publish' AND NOT EXISTS "
        "(SELECT 1 FROM places q WHERE q.space = ?1 AND q.node = n.node))) "
        "AND NOT EXISTS (SELECT 1 FROM refused r WHERE r.cid = l.named)"
    )
    return sorted(cid_from_bytes(raw) for (raw,) in folder.transaction().execute(query, (space,)))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_missing_is_what_a_scan_finds_and_who_waits_is_counted(seed: int, folder: DagFolder) -> None:
    rng = random.Random(seed)
    scenario = draw_scenario(rng)
    wrong = [publish(prior=encode_append([]).cid), publish(exp=NOW - 1)]
    nodes = [*scenario.nodes, *((KEYS[0], node.cid, node.data) for node in wrong)]
    nodes += [(OTHER_SPACE, cid, block) for _, cid, block in nodes]
    for space, _, block in rng.sample(nodes, len(nodes)):
        folder.put_blocks(space, [block], received_at=NOW, peer=rng.choice(SEEDS))
        for stored_space in folder.queries.spaces():
            assert folder.missing_nodes(stored_space, 10_000) == scanned_missing(folder, stored_space)
    database = folder.transaction()
    waiting = database.execute("SELECT count(*) FROM waiting").fetchone()[0]
    assert waiting <= database.execute("SELECT count(DISTINCT child) FROM lacks").fetchone()[0]
    unplaced = "SELECT count(*) FROM waiting WHERE node NOT IN (SELECT child FROM lacks)"
    assert database.execute(unplaced).fetchone()[0] == 0
    for of in range(3):
        query = "SELECT ifnull(sum(nodes), 0) FROM waiting_counts WHERE of = ?"
        assert database.execute(query, (of,)).fetchone()[0] == waiting
    here = "SELECT count(*) FROM lacks l JOIN nodes n ON n.cid = l.named"
    assert database.execute(here).fetchone()[0] == 0


def test_a_peer_has_so_many_nodes_wait_and_another_one_has_its_own_places(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes_per_peer=2)
    pairs = [chain(2, number) for number in range(4)]
    late, done = AckStatus.LATER, AckStatus.DURABLE
    assert put(folder, *(tip.data for _, tip in pairs[:3])) == [done, done, late]
    assert put(folder, pairs[3][1].data, peer=OTHER) == [done]
    assert folder.waiting_nodes(SPACE)[0] == 3
    # Nothing is kept of what comes later; what waits for nothing is taken, and makes room.
    assert folder.read_node(pairs[2][1].cid) is None
    assert put(folder, pairs[0][0].data, pairs[2][1].data) == [done, done]
    folder.close()


def test_a_space_has_so_many_bytes_wait(tmp_path: Path) -> None:
    (_, first), (_, second) = chain(2), chain(2, 1)
    folder = opened(tmp_path, max_waiting_bytes=len(first.data) + len(second.data) - 1)
    assert put(folder, first.data, second.data) == [AckStatus.DURABLE, AckStatus.LATER]
    assert folder.waiting_nodes(SPACE) == (1, len(first.data))
    folder.close()


def test_a_chain_that_comes_from_its_end_needs_one_place(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes_per_peer=1, max_waiting_nodes=1)
    nodes = chain(300)
    assert set(put(folder, *(node.data for node in reversed(nodes)))) == {AckStatus.DURABLE}
    assert folder.waiting_nodes(SPACE) == (0, 0)
    folder.close()


def orphans(count: int, first: int = 0) -> list[bytes]:
    """Nodes that build on what nobody has."""
    return [chain(2, number)[1].data for number in range(first, first + count)]


def test_orphans_of_strangers_keep_no_chain_out(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes=100, max_waiting_nodes_per_peer=10)
    for number in range(10):
        with calling(f"10.0.0.{number % 5}", str(number)):
            peer = number.to_bytes(32, "big")
            assert set(put(folder, *orphans(10, 10 * number), peer=peer)) == {AckStatus.DURABLE}
    assert folder.waiting_nodes(SPACE)[0] == 100
    nodes = chain(300, 1_000)
    with calling("10.0.1.1", "honest"):
        assert set(put(folder, *(node.data for node in reversed(nodes)))) == {AckStatus.DURABLE}
    assert folder.waiting_nodes(SPACE)[0] == 99
    # Who has as many as anybody takes nobody's place.
    with calling("10.0.0.0", "0"):
        assert put(folder, *orphans(2, 500), peer=bytes(32)) == [AckStatus.LATER] * 2
    folder.close()


def test_a_writer_builds_on_heads_alone_whose_ancestors_are_here(folder: DagFolder) -> None:
    unknown = chain(5, 1)
    # The space has nothing but an orphan, and what builds on it: that is no beginning.
    put(folder, *(node.data for node in unknown[2:4]))
    shards = [cid_of(CAR, bytes([number])) for number in range(3)]
    first = append_shards(folder, SPACE, shards[:1], now=NOW)
    assert folder.queries.whole_heads(SPACE) == [first]
    second = append_shards(folder, SPACE, shards[1:2], now=NOW)
    assert decode_node(folder.read_node(second) or b"").prior == first
    with pytest.raises(NothingToJoin):
        join_heads(folder, SPACE, now=NOW)
    # What was lacking has come: the chain is joined, and nothing but its end.
    put(folder, *(node.data for node in unknown[:2]))
    assert folder.queries.whole_heads(SPACE) == sorted([second, unknown[3].cid])
    append_shards(folder, SPACE, shards[2:], now=NOW)
    put(folder, unknown[4].data)
    assert len(folder.queries.whole_heads(SPACE)) == 2


def test_an_address_has_so_many_places_and_at_it_the_peer_with_fewer_of_them_gets_one(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes_per_address=4, max_waiting_nodes_per_peer=4)
    late, done = AckStatus.LATER, AckStatus.DURABLE
    with calling("10.0.0.1", "peers"):
        assert put(folder, *orphans(4)) == [done] * 4
        assert put(folder, *orphans(3, 10), peer=OTHER) == [done, done, late]
    with calling("10.0.0.2", "peers"):
        assert put(folder, *orphans(2, 20), peer=SEEDS[2]) == [done, done]
    assert folder.waiting_nodes(SPACE)[0] == 6
    folder.close()


def test_whoever_has_waited_for_long_has_no_place_and_is_kept(tmp_path: Path) -> None:
    now = NOW
    settings = DagFolderSettings(max_waiting_nodes=2, waiting_expires_s=100)
    folder = DagFolder(tmp_path / "dags", settings, create=True, clock_s=lambda: now)
    first, second, third = orphans(3)
    assert put(folder, first, second, third) == [AckStatus.DURABLE, AckStatus.DURABLE, AckStatus.LATER]
    now += 100
    assert put(folder, third) == [AckStatus.DURABLE]
    assert folder.waiting_nodes(SPACE)[0] == 1
    now += 100
    folder.drop_expired()
    assert folder.waiting_nodes(SPACE) == (0, 0)
    assert len(list(folder.queries.nodes(SPACE))) == 3
    assert put(folder, *(chain(1, number)[0].data for number in range(3))) == [AckStatus.DURABLE] * 3
    folder.close()


def test_what_nobody_else_brings_and_what_topics_bring_always_has_room(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes_per_peer=1, max_waiting_nodes=1)
    tips = [chain(2, number)[1].data for number in range(5)]
    assert set(put(folder, *tips, peer=None)) == {AckStatus.DURABLE}
    assert put(folder, chain(2, 5)[1].data) == [AckStatus.DURABLE]
    assert folder.waiting_nodes(SPACE)[0] == 1
    folder.close()


def test_a_publish_waits_for_proofs_that_are_missing_however_far_below(tmp_path: Path) -> None:
    folder = opened(tmp_path, max_waiting_nodes_per_peer=2)
    root = ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]})
    middle = ucan(1, 2, {"can": "dag/publish", "with": DIDS[0]}, prf=[root.cid])
    waiting = [publish(by=2, prf=[middle.cid], nnc=str(number)) for number in range(3)]
    done, late = AckStatus.DURABLE, AckStatus.LATER
    assert put(folder, *(node.data for node in waiting)) == [done, done, late]
    # They wait for the root now: for what is below the one that came.
    assert put(folder, middle.block, waiting[2].data) == [done, late]
    assert put(folder, root.block, waiting[2].data) == [done, done]
    assert len(folder.published(KEYS[0]).order) == 3
    assert folder.waiting_nodes(KEYS[0]) == folder.waiting_nodes(SPACE) == (0, 0)
    folder.close()


@pytest.mark.parametrize("is_proof_first", [True, False])
def test_a_publish_that_a_clock_refuses_is_not_kept_whatever_came_first(
    folder: DagFolder, is_proof_first: bool
) -> None:
    proof = ucan(0, 1, {"can": "dag/publish", "with": DIDS[0]}, exp=NOW - 10)
    late = publish(by=1, prf=[proof.cid])
    above = publish(by=0, prior=late.cid)
    blocks = [proof.block, late.data] if is_proof_first else [late.data, proof.block]
    put(folder, above.data, *blocks)
    assert folder.published(KEYS[0]).waiting == (above.cid,)
    assert folder.missing_nodes(KEYS[0], 10) == sorted([late.cid, above.change.origin])  # type: ignore[union-attr]
    assert folder.refused_with(late.cid) is None
    assert folder.read_node(late.cid) is None
    # A receipt from before it had expired makes it stand, and what waits for it.
    put(folder, late.data, at=NOW - 20)
    assert [ordered.cid for ordered in folder.published(KEYS[0]).order] == [late.cid, above.cid]
