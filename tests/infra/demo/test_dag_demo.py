"""The parts of `culm demo dag` without its processes: files, a writer by HTTP, strangers, the report."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from culm_connectors.dag.author import join_heads, publish_link
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_infra.demo.dag.content import SeededFile, digest_of_file, put_file
from culm_infra.demo.dag.door_client import DoorClient
from culm_infra.demo.dag.door_writer import DoorWriter
from culm_infra.demo.dag.size import SHARD_BYTES, DagDemoSize, Policy
from culm_infra.demo.dag.stranger import expired, rewrapped, stolen, unnamed
from culm_infra.demo.dag.witnesses import Witness, agree, ask_writer
from culm_infra.demo.dag.writer import dag_writer, now_s
from culm_infra.demo.kit.processes import DemoError
from culm_infra.errors import NotReached
from culm_models.dag.publish.states import PublishState
from culm_models.dag.verdict import VerdictSettings
from culm_models.keys import KeyPair
from tests.connectors.dag.http.doors import open_door

ADA, DORA = KeyPair(b"\1" * 32), KeyPair(b"\2" * 32)
SPACE = ADA.public_key


def test_a_file_of_a_seed_is_the_same_each_time_and_comes_back_out_of_its_shards(tmp_path: Path) -> None:
    file = SeededFile("one", 7, 600_000)
    assert file.digest() == SeededFile("one", 7, 600_000).digest() != SeededFile("two", 7, 600_000).digest()
    folder = DagFolder(tmp_path, create=True)
    put = put_file(folder, SPACE, file, 300_000, now=now_s())
    assert len(put.shards) > 1
    assert digest_of_file(folder, put.cid) == file.digest()
    folder.close()


def test_only_the_first_policy_has_the_large_file() -> None:
    size = DagDemoSize(file_mb=9)
    assert [size.large_bytes(policy) for policy in size.chosen] == [9_000_000, 3_000_000]


async def test_what_one_brings_by_http_in_shuffled_parts_another_reads_by_http(tmp_path: Path) -> None:
    async with (
        open_door(tmp_path / "door") as door,
        dag_writer(tmp_path, "ada", ADA, SPACE, "bound") as ada,
        dag_writer(tmp_path, "dora", DORA, SPACE, "bound") as dora,
    ):
        client = DoorClient(*door.address, "a token")
        file = SeededFile("one", 7, 3_000_000)
        put = await ada.put(file, SHARD_BYTES)
        await ada.publish(put.cid, put.origin, put.shards[0])
        bringing = DoorWriter(ada, client, random.Random(1), SHARD_BYTES)
        await bringing.push()
        assert (bringing.doubled, bringing.resumed) == (2, 2)
        reading = DoorWriter(dora, client, random.Random(1), SHARD_BYTES)
        await reading.pull()
        assert reading.recut == len(put.shards)
        assert agree([await ask_writer(one, "") for one in (ada, dora)])
        assert await dora.peer.work(lambda folder: digest_of_file(folder, put.cid)) == file.digest()


async def test_a_door_that_is_not_there_and_an_edge_that_never_answers_are_told(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="at the HTTP door"):
        await DoorClient("127.0.0.1", 1, "").get("/openapi.json")
    async with dag_writer(tmp_path, "ada", ADA, SPACE, "bound") as ada:
        with pytest.raises(NotReached, match="not reached in time: ada's exchange with an edge"):
            await ada.sync(("127.0.0.1", 1), 0.01)


@pytest.mark.parametrize(("policy", "of_nothing"), [("bound", "dag.unbound"), ("bearer", None)])
def test_strangers_are_refused_with_the_code_of_what_they_did(
    tmp_path: Path, policy: Policy, of_nothing: str | None
) -> None:
    folder = DagFolder(tmp_path, DagFolderSettings(verdict=VerdictSettings(policy=policy)), create=True)
    put = put_file(folder, SPACE, SeededFile("one", 7, 1_000), SHARD_BYTES, now=now_s())
    other = put_file(folder, SPACE, SeededFile("two", 7, 1_000), SHARD_BYTES, now=now_s())

    def code(block: bytes) -> str | None:
        return folder.put_blocks(SPACE, [block], received_at=now_s())[0].code

    own = publish_link(folder, ADA, SPACE, put.cid, now=now_s(), origin=other.origin)
    block = folder.read_node(own.cid)
    assert block is not None
    assert code(stolen(block, other.cid)) == "dag.unbound"
    assert code(rewrapped(block)) == "dag.proof_form"
    assert code(expired(ADA, other.cid, other.origin, own.cid, now_s())) == "dag.expired"
    assert code(unnamed(ADA, other.cid, other.origin, own.cid)) == of_nothing
    states = {one.state for one in folder.published(SPACE).order}
    assert states == {PublishState.COMPLETE}
    folder.close()


def test_two_that_appended_at_one_time_make_one_join(tmp_path: Path) -> None:
    folders = [DagFolder(tmp_path / name, create=True) for name in "ab"]
    for number, folder in enumerate(folders):
        put_file(folder, SPACE, SeededFile(f"file {number}", 7, 1_000), SHARD_BYTES, now=now_s())
    blocks = [block for folder in folders for _, block in folder.queries.nodes(SPACE)]
    for folder in folders:
        folder.put_blocks(SPACE, blocks, received_at=now_s())
    assert len({join_heads(folder, SPACE, now=now_s()) for folder in folders}) == 1
    for folder in folders:
        folder.close()


def witness(name: str, *order: str, heads: tuple[str, ...] | None = ("h",)) -> Witness:
    return Witness(name, "west, QUIC, new", order, order[-1], heads, order[-1])


def test_who_says_another_order_or_other_heads_is_found() -> None:
    one, two = witness("ada", "a", "b"), witness("edge west", "a", "b", heads=None)
    assert agree([one, two])
    assert not agree([one, two, witness("ben", "b", "a", "b")])
    assert not agree([one, two, witness("ben", "a", "b", heads=("i",))])
