"""The parts of the demos of Chotki, DAG and Bamboo without their processes."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.dag.author import join_heads, publish_link
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_connectors.transport.memory import memory_pair
from culm_infra.cli.root import run
from culm_infra.demo.bamboo.run import SCENES, play
from culm_infra.demo.bamboo.size import SCENES as NAMES
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.chotki.actors import RecordedReplica
from culm_infra.demo.chotki.convergence import ComparedStore, alike, check_convergence, merged, wrong_sums
from culm_infra.demo.chotki.edits import LETTERS, RECORDED_OBJECTS, Editor
from culm_infra.demo.dag.door import DoorClient, DoorWriter
from culm_infra.demo.dag.invalid_publishes import expired, rewrapped, stolen, unnamed
from culm_infra.demo.dag.size import SHARD_BYTES, DagDemoSize, Policy
from culm_infra.demo.dag.statements import ReplicaStatement, agree, ask_writer
from culm_infra.demo.dag.writer import SeededFile, dag_writer, digest_of_file, now_s, put_file
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import SceneFigures
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.errors import NotReached
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import delta, parse_text
from culm_models.chotki.replica import Replica
from culm_models.dag.publish.states import PublishState
from culm_models.dag.validation_rules import ValidationRules
from culm_models.keys import KeyPair
from tests.connectors.dag.http.doors import open_door
from tests.support.process.waiting import until

VECTORS = Path(__file__).parents[2] / "vectors" / "chotki"


def editor(name: str, src: int) -> Editor:
    return Editor(name, ReplicaPeer(Replica(src, name=name)), random.Random(name))


async def meet(peer: ReplicaPeer, other: ReplicaPeer) -> None:
    """One session in which each gets what the other has."""
    near, far = memory_pair()
    await asyncio.gather(peer.run_session(near, mode=3), other.run_session(far, mode=3))


def test_every_type_is_edited_and_the_same_seed_edits_the_same() -> None:
    stores = []
    for _ in range(2):
        ada = editor("ada", 0xADA)
        class_id = ada.new_class()
        objects = [ada.new_object(class_id) for _ in range(3)]
        for _ in range(20):
            ada.edit_every_type(objects)
        ada.rename(class_id)
        ada.new_replica_object()
        assert set(ada.made) == {*LETTERS, *"COY"}
        stores.append(ada.peer.replica.store.values())
    assert stores[0] == stores[1]


async def test_two_that_edit_at_one_time_are_alike_once_they_have_met() -> None:
    ada, ben = editor("ada", 0xADA), editor("ben", 0xBE4)
    class_id = ada.new_class()
    objects = [ada.new_object(class_id) for _ in range(2)]
    await meet(ada.peer, ben.peer)
    for _ in range(10):
        ada.edit_every_type(objects)
        ben.edit_every_type(objects)
    assert not alike([ada.peer.replica.store.values(), ben.peer.replica.store.values()])
    await meet(ada.peer, ben.peer)
    stores = [ada.peer.replica.store.values(), ben.peer.replica.store.values()]
    assert alike(stores)
    added = Counter(ada.added)
    added.update(ben.added)
    assert wrong_sums({}, merged(stores), added) == 0


async def test_the_recorded_replica_says_what_the_go_replica_said_and_keeps_what_it_hears() -> None:
    recorded = RecordedReplica()
    session = json.loads((VECTORS / "full_connector_empty_listener.json").read_text())
    assert recorded.stream.hex() == session["streams"]["1:connector"]
    before = {key.hex(): value.hex() for key, value in recorded.replica.store.values().items()}
    assert before == session["before"]["connector"]
    ada = editor("ada", 0xADA)
    for _ in range(2):
        near, far = memory_pair()
        talking = asyncio.create_task(ada.peer.run_session(near))
        hearing = asyncio.create_task(recorded.run_session(far))
        last = object_key(RECORDED_OBJECTS[2], "O")
        await until(lambda last=last: ada.peer.replica.store.get(last) is not None)  # type: ignore[misc]
        ada.edit_every_type(RECORDED_OBJECTS)
        await until(lambda: alike([ada.peer.replica.store.values(), recorded.replica.store.values()]))
        talking.cancel()
        await asyncio.gather(talking, hearing, return_exceptions=True)
    assert recorded.replayed == 2


def test_who_lacks_a_field_or_a_vector_is_found() -> None:
    ada = editor("ada", 0xADA)
    object_id = ada.new_object(ada.new_class())
    before = ada.peer.replica.store.values()
    ada.edit(object_id, "S")
    scene = scene_of([ada.peer.replica.store.values(), before], ada.made)
    holders = scene.listings[0].rows
    assert [(row["lacking_fields"], row["lacking_vectors"]) for row in holders] == [(0, 0), (1, 2)]
    assert holders[0]["state_hash"] != holders[1]["state_hash"]
    assert not scene.holds
    assert "late lacks changes of 1 fields" in scene.unreached
    assert "1 fields of type S are not yet the same" in scene.unreached


def test_lists_in_another_order_are_no_problem() -> None:
    ada = editor("ada", 0xADA)
    ada.made.update({*LETTERS, *"COY"})
    object_id = ada.new_object(ada.new_class())
    ada.edit(object_id, "L")
    store = ada.peer.replica.store.values()
    key = object_key(Id(object_id.src, object_id.pro + LETTERS.index("L") + 1), "L")
    assert scene_of([store, store | {key: store[key] * 2}], ada.made).holds


@pytest.mark.parametrize("letter", ["N", "Z"])
def test_a_counter_that_lost_or_repeats_an_edit_is_found(letter: str) -> None:
    key = object_key(Id.make(1, 2, 3), letter)
    before = {key: delta(letter, b"", parse_text(letter, "5"), src=1)}
    after = {key: delta(letter, b"", parse_text(letter, "7"), src=1)}
    assert wrong_sums(before, after, Counter({key: 2})) == 0
    assert wrong_sums(before, after, Counter({key: 4})) == 1
    assert wrong_sums(before, after, Counter()) == 1


def scene_of(stores: list[dict[bytes, bytes]], made: Counter[str]) -> SceneFigures:
    named = zip(("ada", "late"), stores, strict=True)
    return check_convergence(
        [ComparedStore(name, "replica", "west, quic", store) for name, store in named], made, {}, Counter()
    )


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
        assert agree([await ask_writer(writer, "") for writer in (ada, dora)])
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
    folder = DagFolder(tmp_path, DagFolderSettings(verdict=ValidationRules(policy=policy)), create=True)
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
    states = {publish.state for publish in folder.published(SPACE).order}
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


def witness(name: str, *order: str, heads: tuple[str, ...] | None = ("h",)) -> ReplicaStatement:
    return ReplicaStatement(name, "west, QUIC, new", order, order[-1], heads, order[-1])


def test_who_says_another_order_or_other_heads_is_found() -> None:
    ada, west = witness("ada", "a", "b"), witness("edge west", "a", "b", heads=None)
    assert agree([ada, west])
    assert not agree([ada, west, witness("ben", "b", "a", "b")])
    assert not agree([ada, west, witness("ben", "a", "b", heads=("i",))])


@pytest.mark.parametrize("name", [scene.name for scene in SCENES if scene.name != "edges"])
async def test_every_scene_holds(tmp_path: Path, name: str) -> None:
    size = BambooDemoSize(entries=600, payload_mb=8, live_entries=5, scenes=[name])
    chapters: list[str] = []
    report = await play(size, DemoStage(tmp_path, chapters.append, 300.0))
    [scene] = report.scenes
    assert report.converged, scene.problems
    assert scene.name == name and scene.title in chapters
    assert any(figure.rule for figure in scene.figures), "a scene demands something of what it shows"
    assert json.loads(json.dumps(report.as_json()))["converged"] is True


def test_the_command_plays_one_scene_and_prints_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "bamboo", "--scene", "live", "--live-entries", "3", "--json"]) == 0
    [document] = map(json.loads, capsys.readouterr().out.splitlines())
    assert document["converged"] and [scene["name"] for scene in document["scenes"]] == ["live"]


def test_the_command_names_the_scenes_that_there_are() -> None:
    assert tuple(scene.name for scene in SCENES) == NAMES
