"""A folder of DAGs says what the models say, in any order, and survives kills (R15, R25, R34)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.dag.store.tables import DATABASE_FILE, open_database
from culm_models.dag.blocks.cid import CAR, Cid, cid_of
from culm_models.dag.car import car_header
from culm_models.dag.errors import DagError, HashMismatch
from culm_models.dag.exchange.needs import needs_of_block
from culm_models.dag.exchange.store import NotReserved, Reserved
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.replica.codec import encode_append, encode_join
from culm_models.dag.walk.shard_blocks import open_shard
from culm_models.dag.wire.messages import CHUNK_SIZE, AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SEEDS, SPACES, DagScenario, draw_scenario, large_shard
from tests.models.dag.signers import DIDS, KEYS, publish, ucan
from tests.support.freeze import dag_folder, frozen

SPACE = SPACES[0]
PEER, OTHER = SEEDS[0], SEEDS[1]
SHARD, SHARD_BYTES = large_shard(0)
SIZE = len(SHARD_BYTES)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DagFolder]:
    made = DagFolder(tmp_path / "dags", create=True)
    yield made
    made.close()


def reopened(folder: DagFolder, **settings: Any) -> DagFolder:
    """The folder as it is after a kill."""
    folder.close()
    return DagFolder(folder.folder, DagFolderSettings(**settings))


def spool(folder: DagFolder, peer: bytes, *offsets: int) -> None:
    folder.reserve(peer, SPACE, SHARD, SIZE)
    for offset in offsets:
        folder.spool(peer, SHARD, offset, SHARD_BYTES[offset : offset + CHUNK_SIZE])


def draw_mixed(seed: int) -> DagScenario:
    """A scenario with nodes that are refused now or later."""
    rng = random.Random(seed)
    scenario = draw_scenario(rng)
    appends = [cid for _, cid, data in scenario.nodes if b"append" in data]
    publishes = [cid for _, cid, data in scenario.nodes if b"publish" in data]
    if publishes and appends:
        wrong = [encode_append([], rng.choice(publishes)), encode_join([publishes[0], appends[0]])]
        wrong.append(encode_append([SHARD], wrong[0].cid))
        wrong.append(publish(prior=rng.choice(appends)))
        scenario.nodes += [(SPACE, node.cid, node.data) for node in wrong]
    expired = publish(exp=NOW - 1)
    delegation = ucan(0, 2, {"can": "dag/other", "with": DIDS[0]})
    scenario.nodes += [(KEYS[0], expired.cid, expired.data), (SPACE, delegation.cid, delegation.block)]
    scenario.nodes.append((SPACE, cid_of(0x71, b"\xa1\x61s\x00"), b"\xa1\x61s\x00"))
    return scenario


@pytest.mark.parametrize("seed", range(25))
def test_any_order_of_blocks_says_what_the_models_say(seed: int, folder: DagFolder) -> None:
    rng = random.Random(seed)
    scenario = draw_mixed(seed)
    items: list[tuple[bool, bytes, Cid, bytes]] = [(True, *node) for node in scenario.nodes]
    items += [(False, *shard) for shard in scenario.shards]
    items = rng.sample(items, rng.randint(len(items) // 2, len(items)))
    machine = PublishMachine()
    for is_node, space, cid, data in items:
        code = None
        try:
            machine.add(cid, data, NOW)
        except DagError as error:
            code = error.code
        if is_node:
            (outcome,) = folder.put_blocks(space, [data], received_at=NOW)
            assert (outcome.cid, outcome.code) == (cid, code)
        else:
            folder.add_shard(space, cid, data)
    folder.commit()
    folder = reopened(folder)
    for space in {*SPACES, *KEYS}:
        published = folder.published(space)
        order = machine.order(space)
        assert [node.cid for node in published.order] == order.order()
        assert {node.cid: node.state for node in published.order} == machine.states(space)
        assert list(published.waiting) == machine.waiting(space)
        assert folder.tip(space) == order.tip
    for cid, why in machine.refused.items():
        assert folder.refused_with(cid) == why.code
    nodes = {cid: node for cid, node in machine.nodes.items() if not node.is_publish}
    placed = {
        space: {cid for cid, _ in folder.queries.nodes(space)} & nodes.keys()
        for space in folder.queries.spaces()
    }
    for space, here in placed.items():
        named = {parent for cid in here for parent in nodes[cid].parents}
        heads = folder.dag_heads(space)
        assert heads == sorted(here - named)
        among = folder.queries.heads_among(space, [cid for cid, _ in folder.queries.nodes(space)])
        assert among == (heads, folder.publish_heads(space))
        assert folder.queries.heads_among(space, heads[:1]) == (heads[:1], [])
        missing = {need for cid in here for need in nodes[cid].parents if need not in here}
        assert missing - set(machine.nodes) <= set(folder.missing_nodes(space, 1_000))
        needs = {cid: set(needs_of_block(cid, block)) for cid, block in folder.queries.nodes(space)}
        ucans = {cid for cid in needs if folder.read_ucan(cid) is not None}
        assert ucans - set().union(*needs.values()) == ucans & set(folder.publish_heads(space))


def test_what_was_committed_is_there_and_the_rest_is_not(folder: DagFolder) -> None:
    kept, lost = encode_append([]), encode_append([SHARD])
    folder.put_blocks(SPACE, [kept.data], received_at=NOW)
    folder.commit()
    folder.put_blocks(SPACE, [lost.data], received_at=NOW)
    folder = reopened(folder)
    assert folder.dag_heads(SPACE) == [kept.cid]


def test_blocks_are_read_by_the_index_and_a_dropped_shard_is_as_one_that_never_came(
    folder: DagFolder,
) -> None:
    folder.add_shard(SPACE, SHARD, SHARD_BYTES)
    folder.commit()
    blocks = open_shard(SHARD, SHARD_BYTES).blocks
    assert {cid: folder.block(cid) for cid in blocks} == {cid: bytes(block) for cid, block in blocks.items()}
    assert list(folder.shards(SPACE)) == [(SHARD, SIZE)]
    assert folder.drop_shard(SHARD)
    folder.commit()
    assert [folder.block(cid) for cid in blocks] == [None] * len(blocks)
    assert not any((folder.folder / "shards").iterdir())


def test_a_state_that_was_found_out_is_found_out_anew_once_a_shard_is_gone(folder: DagFolder) -> None:
    origin = encode_append([SHARD])
    link = next(iter(open_shard(SHARD, SHARD_BYTES).blocks))
    node = publish(link=link, origin=origin.cid)
    other = DagFolder(folder.folder)
    folder.put_blocks(KEYS[0], [origin.data, node.data], received_at=NOW)

    def states() -> list[str]:
        folder.commit()
        return [publish.state for publish in folder.published(KEYS[0]).order]

    assert states() == ["pending"]
    for dropping in (folder, other):
        folder.add_shard(SPACE, SHARD, SHARD_BYTES)
        assert states() == states() == ["complete"]
        dropping.drop_shard(SHARD)
        dropping.commit()
        assert states() == ["pending"]
    other.close()


def test_a_spool_goes_on_after_a_restart_and_is_a_shard_once_it_is_whole(folder: DagFolder) -> None:
    spool(folder, PEER, CHUNK_SIZE)
    folder.commit()
    folder = reopened(folder)
    assert folder.spooled(PEER, SHARD) == (SIZE, ((CHUNK_SIZE, SIZE - CHUNK_SIZE),))
    assert folder.reserve(PEER, SPACE, SHARD, SIZE) == Reserved(2)
    assert not folder.accept_spool(PEER, SHARD)
    spool(folder, PEER, 0)
    spool(folder, OTHER, 0)
    assert folder.accept_spool(PEER, SHARD)
    folder.commit()
    assert folder.read_shard(SHARD, 0, SIZE) == SHARD_BYTES
    assert folder.spooled(OTHER, SHARD) is None
    assert not any((folder.folder / "spools").iterdir())


def test_a_spool_that_does_not_verify_is_gone(folder: DagFolder) -> None:
    folder.reserve(PEER, SPACE, SHARD, SIZE)
    folder.spool(PEER, SHARD, 0, SHARD_BYTES[:CHUNK_SIZE])
    folder.spool(PEER, SHARD, CHUNK_SIZE, bytes(SIZE - CHUNK_SIZE))
    with pytest.raises(DagError):
        folder.accept_spool(PEER, SHARD)
    folder.commit()
    assert (folder.spooled(PEER, SHARD), folder.has_shard(SHARD)) == (None, False)


def test_a_spool_has_nothing_of_one_that_was_dropped_in_its_transaction(folder: DagFolder) -> None:
    spool(folder, PEER, 0)
    folder.commit()
    # The file goes with the commit: neither its bytes nor its end are those of the next spool.
    folder.drop_spool(PEER, SHARD)
    small = car_header([])
    cid = cid_of(CAR, small)
    folder.reserve(PEER, SPACE, cid, len(small))
    folder.spool(PEER, cid, 0, small)
    folder.commit()
    assert folder.accept_spool(PEER, cid)


def test_a_torn_spool_is_dropped_at_the_start(folder: DagFolder) -> None:
    spool(folder, PEER, 0)
    spool(folder, OTHER, 0)
    folder.commit()
    torn = sorted((folder.folder / "spools").iterdir())[0]
    torn.write_bytes(SHARD_BYTES[: CHUNK_SIZE - 1])
    folder = reopened(folder)
    left = [spooled for peer in (PEER, OTHER) if (spooled := folder.spooled(peer, SHARD)) is not None]
    assert left == [(SIZE, ((0, CHUNK_SIZE),))]


def test_an_expired_spool_is_dropped(tmp_path: Path) -> None:
    now = 1_000.0
    folder = DagFolder(tmp_path, create=True, clock_s=lambda: now)
    spool(folder, PEER, 0)
    folder.drop_expired()
    assert folder.spooled(PEER, SHARD) is not None
    now += DagFolderSettings().spool_expires_s
    folder.drop_expired()
    assert folder.spooled(PEER, SHARD) is None


def test_blocked_shards_and_spaces_are_refused(folder: DagFolder) -> None:
    refused = NotReserved(AckStatus.REFUSED, "dag.blocked")
    for key in (SHARD.raw, SPACE):
        folder.set_blocked(key, "unwanted")
        assert folder.reserve(PEER, SPACE, SHARD, SIZE) == refused
        folder.set_blocked(key, None)
    assert folder.reserve(PEER, SPACE, SHARD, SIZE) == Reserved(0)


def test_a_shard_whose_bytes_are_others_is_not_added(folder: DagFolder) -> None:
    with pytest.raises(HashMismatch):
        folder.add_shard(SPACE, cid_of(CAR, b"other"), SHARD_BYTES)
    assert not list(folder.folder.glob(".adding-*"))


def test_what_is_lacked_is_named(folder: DagFolder) -> None:
    prior = encode_append([SHARD])
    head = encode_append([cid_of(0x55, b"opaque")], prior.cid)
    folder.put_blocks(SPACE, [head.data], received_at=NOW)
    assert folder.queries.missing([head.cid]).nodes == (prior.cid,)
    folder.put_blocks(SPACE, [prior.data], received_at=NOW)
    lack = folder.queries.missing([head.cid])
    assert (lack.nodes, lack.shards) == ((), (SHARD,))
    assert lack.opaque_shards == (cid_of(0x55, b"opaque"),)


def test_two_processes_see_what_the_other_one_committed(folder: DagFolder) -> None:
    other = DagFolder(folder.folder)
    node = encode_append([])
    folder.put_blocks(SPACE, [node.data], received_at=NOW)
    assert other.dag_heads(SPACE) == []
    folder.commit()
    assert other.dag_heads(SPACE) == [node.cid]
    other.close()


def test_a_folder_of_another_format_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(DagFolderError, match="holds no DAGs"):
        DagFolder(tmp_path / "none")
    with open_database(tmp_path, create=True) as database:
        database.execute("PRAGMA user_version = 99")
        database.close()
    with pytest.raises(DagFolderError, match="format 99"):
        DagFolder(tmp_path)
    (tmp_path / DATABASE_FILE).write_bytes(b"not a database, but long enough to be looked at as one" * 9)
    with pytest.raises(DagFolderError, match="cannot be used"):
        DagFolder(tmp_path)


@pytest.mark.parametrize("is_ucan_first", [True, False])
def test_a_ucan_is_no_prior_whatever_came_first(folder: DagFolder, is_ucan_first: bool) -> None:
    delegation = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]})
    above = publish(prior=delegation.cid)
    blocks = [delegation.block, above.data] if is_ucan_first else [above.data, delegation.block]
    outcomes = folder.put_blocks(KEYS[0], blocks, received_at=NOW)
    assert [outcome.code for outcome in outcomes] == [None, None]
    assert folder.published(KEYS[0]).waiting == (above.cid,)


@pytest.mark.parametrize("name", dag_folder.NAMES)
def test_a_folder_of_an_earlier_program_is_read_as_it_was_and_its_spool_goes_on(
    name: str, tmp_path: Path
) -> None:
    folder = frozen.unpack(name, tmp_path)
    frozen.assert_as_kept(name, dag_folder.read(folder))
    dags = DagFolder(folder, clock_s=lambda: NOW)
    shard, data = dag_folder.spooled_shard()
    dags.spool(dag_folder.PEER, shard, 1_835_008, data[1_835_008:])
    assert dags.accept_spool(dag_folder.PEER, shard)
    dags.commit()
    assert dags.read_shard(shard, 0, len(data)) == data
    dags.close()
