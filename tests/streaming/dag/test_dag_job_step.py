"""The job `dag` without Spark: what it writes is a function of the set of records (reference 6, 9)."""

from __future__ import annotations

from random import Random

import pytest

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, Cid, cid_of
from culm_models.dag.car import write_car
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.publish.states import PublishState
from culm_models.dag.replica.codec import decode_node, encode_append, encode_join
from culm_models.dag.replica.node import PublishChange, ReplicaNode
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import ValidationRules
from culm_streaming.dag import contents
from culm_streaming.dag.state import CHUNKS, SHARDS_KNOWN
from culm_streaming.errors import StateLayoutError
from culm_topics.dag.records import (
    BlockedRecord,
    HeadsRecord,
    NodeRecord,
    PublishedRecord,
    PublishRecord,
    blocked_key,
    decode_shard_index,
    node_key,
    shard_chunk_key,
    shard_index_key,
)
from culm_topics.dag.shard_chunks import cut_shard
from culm_topics.records import RejectedRecord
from tests.models.dag.signers import KEYS, publish, ucan
from tests.models.dag.test_dag_publishing import (
    GRANT,
    HALF,
    ID,
    LEAF_CAR,
    NOW,
    ROOT_CAR,
    WHOLE,
    delegated,
    scene,
)
from tests.support.dag.job import DagWorld, Sent

SPACE, OTHER = b"s" * 32, b"o" * 32
ROOT_SHARD, LEAF_SHARD = cid_of(CAR, ROOT_CAR), cid_of(CAR, LEAF_CAR)
LARGE = bytes(range(256)) * 8_000
LARGE_CAR = write_car([], [(cid_of(0x55, LARGE), LARGE)])
LARGE_SHARD = cid_of(CAR, LARGE_CAR)
WITH_LARGE = encode_append([LARGE_SHARD], WHOLE.cid)


def in_nodes(block: ReplicaNode | Ucan, space: bytes = SPACE) -> Sent:
    data = block.data if isinstance(block, ReplicaNode) else block.block
    return Sent("dag.nodes", node_key(space, block.cid), NodeRecord(data).encode())


def in_publishes(node: ReplicaNode, received_at: int = NOW) -> Sent:
    assert isinstance(node.change, PublishChange)
    record = PublishRecord(node.cid, node.prior, node.data, received_at)
    return Sent("dag.publishes", node.change.id, record.encode())


def in_shards(data: bytes, shard: Cid | None = None) -> list[Sent]:
    shard = shard or cid_of(CAR, data)
    chunks = cut_shard(shard, len(data), [data], space=SPACE)
    return [Sent("dag.shards", key, record.encode()) for key, record in chunks]


def dropped(data: bytes) -> list[Sent]:
    return [record._replace(value=None) for record in in_shards(data)]


def published(world: DagWorld, id: bytes = ID) -> PublishedRecord:
    return PublishedRecord.decode(world.written["dag.published", id])


def heads(world: DagWorld, space: bytes = SPACE) -> HeadsRecord:
    return HeadsRecord.decode(world.written["dag.heads", space])


def records_of_scene(random: Random) -> list[Sent]:
    """The scene of the publish machine's tests as records, in two spaces, with a fork and a join."""
    records: list[Sent] = []
    for cid, data, now in scene(random):
        if cid.codec == CAR:
            records += in_shards(data)
        elif b"dpublish" not in data and b"gpublish" not in data:
            records.append(
                Sent("dag.nodes", node_key(random.choice([SPACE, OTHER]), cid), NodeRecord(data).encode())
            )
        else:
            record = PublishRecord(cid, _prior(data), data, now)
            records.append(Sent("dag.publishes", ID, record.encode()))
    left, right = encode_append([LARGE_SHARD], WHOLE.cid), encode_append([ROOT_SHARD], WHOLE.cid)
    records += map(in_nodes, (WHOLE, left, right, encode_join([left.cid, right.cid])))
    return records + in_shards(LARGE_CAR)


def _prior(data: bytes) -> Cid | None:
    return decode_node(data).prior


@pytest.mark.parametrize("seed", range(60))
def test_what_is_written_depends_neither_on_order_nor_on_batches_nor_on_restarts(seed: int) -> None:
    random = Random(seed)
    records = records_of_scene(random)
    whole = DagWorld()
    whole.run(records)
    for _ in range(3):
        random.shuffle(records)
        world = DagWorld()
        left = records + random.sample(records, 3)
        while left:
            count = random.randrange(1, 6)
            world.run(left[:count])
            del left[:count]
            if random.random() < 0.3:
                world.forget()
        assert world.picture == whole.picture


@pytest.mark.parametrize("seed", range(60))
def test_order_tip_and_states_are_those_of_the_publish_machine(seed: int) -> None:
    random = Random(seed)
    blocks = scene(random)
    random = Random(seed)
    records = records_of_scene(random)
    world = DagWorld()
    world.run(records)
    machine = PublishMachine(keeps_all=True)
    for block in (*blocks, *blocks):
        try:
            machine.add(*block)
        except Exception:
            continue
    order = machine.order(ID)
    states = machine.states(ID)
    if order.tip is None:
        assert ("dag.published", ID) not in world.written
        return
    record = published(world)
    assert world.orders[ID].links == order.order()
    assert (record.tip, record.count, list(record.tip_key)) == (order.tip, len(order), order.tip_key())
    assert record.state == states[order.tip]
    complete = [cid for cid, state in states.items() if state is PublishState.COMPLETE]
    assert (record.complete.cid if record.complete else None) == (complete[-1] if complete else None)
    assert record.revoked.total == sum(state is PublishState.REVOKED for state in states.values())


def test_heads_and_what_is_missing_are_told_by_space() -> None:
    world = DagWorld()
    left, right = encode_append([ROOT_SHARD], WHOLE.cid), encode_append([LARGE_SHARD], HALF.cid)
    world.run([in_nodes(left), in_nodes(right), in_nodes(WHOLE, OTHER)])
    record = heads(world)
    assert record.heads.links == tuple(sorted([left.cid, right.cid]))
    assert record.missing_nodes.links == tuple(sorted([WHOLE.cid, HALF.cid]))
    assert record.shard_count == 2 and record.missing_shards.total == 2
    world.run(in_shards(ROOT_CAR))
    assert heads(world).missing_shards.links == (LARGE_SHARD,)
    assert heads(world, OTHER).missing_shards.links == (LEAF_SHARD,)


def test_a_publish_is_complete_once_shards_and_origin_are_here_in_whatever_space() -> None:
    world = DagWorld()
    node = delegated()
    world.run([in_publishes(node)])
    assert ("dag.published", ID) not in world.written
    world.run([in_nodes(GRANT)])
    assert published(world).state is PublishState.PENDING
    world.run([in_nodes(WHOLE, OTHER), *in_shards(ROOT_CAR)])
    assert published(world).state is PublishState.PENDING
    world.forget()
    world.run(in_shards(LEAF_CAR))
    record = published(world)
    assert record.state is PublishState.COMPLETE
    assert record.complete is not None and record.complete.cid == node.cid


def test_a_shard_that_is_dropped_is_missing_and_may_come_again() -> None:
    world = DagWorld()
    node = delegated()
    world.run(
        [in_publishes(node), in_nodes(GRANT), in_nodes(WHOLE), *in_shards(ROOT_CAR), *in_shards(LEAF_CAR)]
    )
    key = shard_index_key(LEAF_SHARD, 0)
    assert decode_shard_index(key, world.written["dag.shard-index", key])[2].size == len(LEAF_CAR)
    world.run(dropped(LEAF_CAR))
    assert published(world).state is PublishState.PENDING and published(world).complete is None
    assert ("dag.shard-index", key) not in world.written
    assert heads(world).missing_shards.links == (LEAF_SHARD,)
    world.run(in_shards(LEAF_CAR))
    assert published(world).state is PublishState.COMPLETE
    assert ("dag.shard-index", key) in world.written


def test_a_shard_that_is_dropped_and_comes_again_at_once_has_its_index_written_again() -> None:
    world = DagWorld()
    key = ("dag.shard-index", shard_index_key(LEAF_SHARD, 0))
    world.run([in_nodes(WHOLE), *in_shards(LEAF_CAR)])
    index = world.written.pop(key)  # by who drops it
    world.run([*dropped(LEAF_CAR), *in_shards(LEAF_CAR)])
    assert world.written[key] == index
    assert heads(world).missing_shards.links == (ROOT_SHARD,)


def test_what_is_blocked_is_as_if_it_had_never_come() -> None:
    world = DagWorld()
    world.run([in_publishes(delegated()), in_nodes(GRANT), in_nodes(WHOLE)])
    world.run([*in_shards(ROOT_CAR), *in_shards(LEAF_CAR)])
    blocked = Sent("dag.blocked", blocked_key(LEAF_SHARD), BlockedRecord("court order", 1).encode())
    world.run([blocked])
    assert published(world).state is PublishState.PENDING
    world.run([blocked._replace(value=None)])
    assert published(world).state is PublishState.COMPLETE


@pytest.mark.parametrize("is_block_first", [True, False])
def test_a_shard_that_is_dropped_and_comes_again_is_missing_while_it_is_blocked(is_block_first: bool) -> None:
    world = DagWorld()
    world.run([in_publishes(delegated()), in_nodes(GRANT), in_nodes(WHOLE)])
    world.run([*in_shards(ROOT_CAR), *in_shards(LEAF_CAR)])
    blocked = Sent("dag.blocked", blocked_key(LEAF_SHARD), BlockedRecord("court order", 1).encode())
    batches = [[blocked], [*dropped(LEAF_CAR), *in_shards(LEAF_CAR)]]
    for batch in batches if is_block_first else batches[::-1]:
        world.run(batch)
    assert published(world).state is PublishState.PENDING
    assert heads(world).missing_shards.links == (LEAF_SHARD,)


def test_chunks_come_in_any_order_and_batch_and_are_here_while_all_of_them_are() -> None:
    world = DagWorld()
    chunks = in_shards(LARGE_CAR)
    assert len(chunks) == 3
    world.run([in_nodes(WHOLE), in_nodes(WITH_LARGE)])
    for chunk in reversed(chunks):
        assert LARGE_SHARD in heads(world).missing_shards.links
        world.run([chunk, chunk])
    assert LARGE_SHARD not in heads(world).missing_shards.links
    assert not any(store.of(CHUNKS) for store in world.shards.values())
    gone = Sent("dag.shards", shard_chunk_key(LARGE_SHARD, 0), None)
    world.run([gone])
    assert LARGE_SHARD in heads(world).missing_shards.links
    world.run([chunks[0]])
    assert LARGE_SHARD not in heads(world).missing_shards.links
    world.run(dropped(LARGE_CAR))
    assert not any(store.of(SHARDS_KNOWN) for store in world.shards.values())


def test_what_breaks_a_rule_is_told_with_its_code() -> None:
    world = DagWorld()
    node = delegated()
    foreign = publish(id=1)
    twin = in_publishes(foreign)._replace(key=ID)
    bad_shard = in_shards(LEAF_CAR, ROOT_SHARD)
    world.run(
        [
            in_nodes(encode_append([ROOT_SHARD], foreign.cid)),
            in_publishes(foreign),
            in_nodes(node),
            twin,
            Sent("dag.nodes", b"junk", b"junk"),
            Sent("dag.blocked", b"junk", None),
            *bad_shard,
        ]
    )
    codes = sorted(RejectedRecord.decode(value).code for _, value in world.refused)
    assert codes == [
        *("dag.hash", "dag.mixed_chain", "dag.schema", "dag.schema", "topics.record", "topics.record")
    ]
    assert ("dag.published", KEYS[1]) in world.written
    assert heads(world).heads.total == 0


def test_a_signature_that_is_not_the_issuers_authorises_nothing() -> None:
    node = delegated()
    leaf = node.change.proof if isinstance(node.change, PublishChange) else GRANT
    forged = node.data.replace(leaf.signature, leaf.signature[:-1] + bytes([leaf.signature[-1] ^ 1]))
    grant = bytearray(GRANT.block)
    at = GRANT.block.index(GRANT.signature)
    grant[at] ^= 1
    block = Sent(
        "dag.nodes", node_key(SPACE, cid_of(DAG_CBOR, bytes(grant))), NodeRecord(bytes(grant)).encode()
    )
    world = DagWorld()
    world.run([in_nodes(GRANT), block, in_publishes(decode_node(forged))])
    world.run([in_publishes(decode_node(forged), NOW + 1)])
    codes = [RejectedRecord.decode(value).code for _, value in world.refused]
    assert codes == ["dag.signature"] * 3
    assert ("dag.published", ID) not in world.written


def test_a_ucan_is_verified_once_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Cid] = []
    monkeypatch.setattr(contents, "verify_signature", lambda ucan: seen.append(ucan.cid))
    remembered = contents.VerifiedUcans(max_cids=1)
    other = ucan(0, 1, {"can": "*", "with": "ucan:*"})
    for grant in (GRANT, GRANT, other, GRANT):
        assert remembered.is_signed(grant)
    assert seen == [GRANT.cid, other.cid, GRANT.cid]


def test_what_a_process_remembers_of_another_checkpoint_counts_for_nothing() -> None:
    world, other = DagWorld(), DagWorld()
    other.run([in_nodes(HALF)])
    world.remembered = other.remembered
    world.run([in_nodes(WHOLE)])
    assert heads(world).heads.links == (WHOLE.cid,)


def test_a_state_of_other_verdict_settings_is_refused() -> None:
    world = DagWorld()
    world.run([in_nodes(WHOLE)])
    world.settings = ValidationRules(policy="bearer")
    with pytest.raises(StateLayoutError):
        world.run([in_nodes(HALF)])
