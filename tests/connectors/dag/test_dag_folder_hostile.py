"""Hostile nodes and tokens at a folder: each is taken, or refused with the code that the models give it."""

from __future__ import annotations

import os
import random
from itertools import chain
from pathlib import Path

import pytest

from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.node_table import block_cid
from culm_models.dag.errors import DagError
from culm_models.dag.publish.machine import PublishMachine
from culm_models.dag.replica.codec import encode_append, encode_join
from culm_models.dag.wire.messages import AckStatus
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import SPACES, draw_scenario
from tests.models.dag.hostile_bytes import hostile, hostile_values
from tests.models.dag.signers import DIDS, KEYS, publish, ucan

QUICK = 400
MANY = int(os.environ.get("CULM_DAG_HOSTILE_BLOCKS", "100000"))


def good_blocks() -> list[bytes]:
    """Nodes that build on each other, and UCANs of chains."""
    root = encode_append([])
    others = [encode_append([], root.cid), encode_append([SHARD], root.cid)]
    join = encode_join([node.cid for node in others])
    proof = ucan(0, 1, {"can": "dag/*", "with": DIDS[0]}, exp=NOW + 10)
    first = publish(origin=join.cid)
    second = publish(by=1, prior=first.cid, origin=join.cid, prf=[proof.cid])
    return [root.data, *(node.data for node in others), join.data, proof.block, first.data, second.data]


SHARD = draw_scenario(random.Random(3)).shards[0][1]


def fuzz(folder: Path, seed: int, count: int) -> None:
    dags, machine = DagFolder(folder, create=True), PublishMachine()
    good = good_blocks()
    drawn = random.Random(seed)
    blocks = chain(hostile(seed, count, good), hostile_values(seed, count, good))
    for number, data in enumerate(blocks):
        for block in (data, drawn.choice(good)) if number % 50 == 0 else (data,):
            put_in_both(dags, machine, block)
        if number % 1_000 == 0:
            dags.commit()
    for block in good:
        put_in_both(dags, machine, block)
    assert_alike(dags, machine)
    dags.commit()
    dags.close()
    again = DagFolder(folder)
    assert_alike(again, machine)
    again.close()


def put_in_both(dags: DagFolder, machine: PublishMachine, block: bytes) -> None:
    cid, code = block_cid(block), None
    try:
        machine.add(cid, block, NOW)
    except DagError as error:
        code = error.code
    (outcome,) = dags.put_blocks(SPACES[0], [block], received_at=NOW, peer=SPACES[0])
    if outcome.status is AckStatus.LATER:
        return
    # The models take shards, too; and what is no node of a folder is one that it does not know for them.
    is_shard = code is None and outcome.code == "dag.schema" and b"blocks" in block
    assert outcome.code == code or is_shard or outcome.code == "dag.prior_refused", block.hex()


def assert_alike(dags: DagFolder, machine: PublishMachine) -> None:
    published = dags.published(KEYS[0])
    assert [node.cid for node in published.order] == machine.order(KEYS[0]).order()
    assert {node.cid: node.state for node in published.order} == machine.states(KEYS[0])


def test_hostile_blocks_are_judged_as_the_models_judge_them(tmp_path: Path) -> None:
    fuzz(tmp_path / "dags", 1, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_very_many_hostile_blocks_are_judged_as_the_models_judge_them(tmp_path: Path) -> None:
    for seed in range(10):
        fuzz(tmp_path / str(seed), seed + 2, MANY // 20)
