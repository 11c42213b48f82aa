"""Reference peers over real QUIC: both ways, live, again after a break, and what they refuse."""

from __future__ import annotations

import asyncio
import io
import json
import stat
from pathlib import Path

import pytest

from culm_connectors.edge.keyfile import KEY_FILE, KeyFileError, load_key, make_key
from culm_connectors.logs.interchange import InterchangeError, read_pairs, write_pairs
from culm_connectors.p2panda.reference_peer.authoring import AuthoringError, Draft
from culm_connectors.p2panda.reference_peer.field_texts import parse_fields
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.reference_peer.sync_progress import SyncFailed
from culm_connectors.p2panda.settings import DriverSettings
from culm_connectors.transport import ConnectError
from culm_models.p2panda.events import Announced, Live, PeerEvent
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until


async def test_a_synchronisation_brings_both_sides_up_to_date(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        for number in range(12):
            await write_document(a, number)
            await write_document(b, 11 - number, schema_id=OTHER_SCHEMA)
        async with a.serve() as listener:
            summary = await b.sync(listener.address)
            await until(lambda: a.heights() == b.heights())
        assert (summary.entries_received, summary.entries_sent, summary.entries_rejected) == (78, 78, 0)
        assert summary.remote == a.peer_id
        assert set(summary.schema_ids) == {SCHEMA, OTHER_SCHEMA}
        for public_key, log_id in a.heights():
            ours = list(a.store.entries(public_key, log_id, 1, 99))
            assert ours == list(b.store.entries(public_key, log_id, 1, 99))


async def test_a_second_synchronisation_sends_nothing_again(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        await write_document(a, 5)
        async with a.serve() as listener:
            await b.sync(listener.address)
            again = await b.sync(listener.address)
        assert (again.entries_received, again.entries_sent) == (0, 0)


async def test_a_defect_in_handling_an_event_costs_the_connection_that_it_concerns(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "hub") as hub,
        reference_peer(tmp_path, "a", live_mode=False) as a,
        reference_peer(tmp_path, "b", live_mode=False) as b,
        hub.serve() as listener,
    ):
        for peer in (a, b):
            await write_document(peer, 3)

        def fail(event: PeerEvent) -> None:
            if isinstance(event, Announced) and event.remote == a.peer_id:
                raise ValueError("a defect")

        hub.listeners.append(fail)
        with pytest.raises(SyncFailed, match="internal error"):
            await a.sync(listener.address)
        await b.sync(listener.address)
        assert hub.heights() == b.heights()


async def test_live_entries_reach_every_peer_through_one_in_the_middle(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "hub") as hub,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        hub.serve() as listener,
    ):
        live: list[bytes] = []

        def note(event: PeerEvent) -> None:
            if isinstance(event, Live):
                live.append(event.remote)

        for peer in (a, b):
            peer.listeners.append(note)
            peer.dial(listener.address)
        await until(lambda: len(live) == 2)
        for writer, reader in ((a, b), (b, a), (hub, a)):
            written = await write_document(writer, 3)
            await reader.wait_until_holding({written[0].log: 4}, 20)
        assert b.driver.metrics.duplicates == a.driver.metrics.duplicates == 0


async def test_a_dialler_comes_back_when_the_other_side_restarts(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b:
        async with reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a:
            first = await write_document(a)
            async with a.serve() as listener:
                address = listener.address
                b.dial(address, a.peer_id)
                await b.wait_until_holding({first[0].log: 1}, 20)
        async with reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a:
            second = await write_document(a)
            assert second[0].log != first[0].log
            async with a.serve(address):
                await b.wait_until_holding({second[0].log: 1}, 20)


async def test_two_that_dial_each_other_keep_one_connection(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        a.serve() as at_a,
        b.serve() as at_b,
    ):
        a.dial(at_b.address, b.peer_id)
        b.dial(at_a.address, a.peer_id)
        from_a, from_b = await write_document(a, 2), await write_document(b, 2)
        await b.wait_until_holding({from_a[0].log: 3}, 20)
        await a.wait_until_holding({from_b[0].log: 3}, 20)
        await until(lambda: len(at_a.connections) + len(at_b.connections) == 1)


async def test_another_key_than_the_expected_one_is_refused(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b") as b, a.serve() as listener:
        with pytest.raises(ConnectError):
            await b.sync(listener.address, expected_peer_id=author("c").public_key)


async def test_many_small_chunks_and_a_tiny_stage_lose_nothing(tmp_path: Path) -> None:
    tiny = DriverSettings(
        check_chunk=3, check_chunks_ahead=1, max_staged_items=5, store_batch=2, write_bytes=1024
    )
    async with (
        reference_peer(tmp_path, "a", driver=tiny) as a,
        reference_peer(tmp_path, "b", driver=tiny, live_mode=False) as b,
    ):
        for _ in range(4):
            await write_document(a, 40)
        async with a.serve() as listener:
            await b.sync(listener.address)
        assert b.heights() == a.heights()


async def test_a_rate_limit_slows_down_and_loses_nothing(tmp_path: Path) -> None:
    slow = DriverSettings(verifications_per_second=2_000, burst_verifications=10, check_chunk=20)
    async with (
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b", driver=slow, live_mode=False) as b,
    ):
        await write_document(a, 200)
        async with a.serve() as listener:
            await b.sync(listener.address)
        assert b.heights() == a.heights()


async def test_entries_of_a_schema_that_was_not_announced_stay_where_they_are(tmp_path: Path) -> None:
    async with (
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA], live_mode=False) as b,
    ):
        wanted, _ = await write_document(a, 1), await write_document(a, schema_id=OTHER_SCHEMA)
        async with a.serve() as listener:
            await b.sync(listener.address)
        assert b.heights() == {wanted[0].log: 2}


async def test_a_fork_is_refused_and_the_first_branch_stays(tmp_path: Path) -> None:
    log = make_log(author("writer"), 0, 4)
    fork = make_log(author("writer"), 0, 3, text="other", after=log[:2])
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        await a.add(pairs(log[:2] + fork))
        await b.add(pairs(log[:3]))
        async with a.serve() as listener:
            summary = await b.sync(listener.address)
        assert b.driver.metrics.rejects["bamboo.fork"] == 0, "b holds less of it than a: nothing is compared"
        assert summary.entries_rejected == 2
        assert list(b.store.entries(*log[0].log, 1, 9)) == pairs(log[:3])


async def test_a_second_author_continues_a_document(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        (created,) = await write_document(a)
        async with a.serve() as listener:
            await b.sync(listener.address)
            document = created.hash
            await b.publish([Draft("update", SCHEMA, {"name": "b"}, document, previous=(document,))])
            await b.publish([Draft("delete", SCHEMA, document_id=created.hash)])
            await b.sync(listener.address)
            await until(lambda: a.heights() == b.heights())
        assert a.heights() == {created.log: 1, (b.peer_id, 0): 2}


async def test_an_operation_without_anything_to_follow_is_refused(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a:
        with pytest.raises(AuthoringError):
            await a.publish([Draft("update", SCHEMA, {"name": "x"}, document_id=b"\x00\x20" + bytes(32))])
        with pytest.raises(AuthoringError):
            await a.publish([Draft("delete", SCHEMA)])


async def test_what_a_store_holds_can_be_exported_and_imported(tmp_path: Path) -> None:
    text = io.StringIO()
    async with reference_peer(tmp_path, "a") as a:
        await write_document(a, 30)
        for public_key, log_id in a.heights():
            write_pairs(text, a.store.entries(public_key, log_id, 1, 99))
    text.seek(0)
    read = list(read_pairs(text))
    async with reference_peer(tmp_path, "b") as b:
        assert await b.add(read[:10]) == [None] * 10
        assert [error.code if error else None for error in await b.add([read[20]])] == [
            "bamboo.backlink_unknown"
        ]
        assert await b.add(read) == [None] * 31


async def test_recorded_histories_of_another_implementation_are_taken(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "vectors" / "p2panda" / "chains.json"
    with source.open() as file:
        recorded = list(read_pairs(file))
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        assert set(await a.add(recorded)) == {None}
        async with a.serve() as listener:
            summary = await b.sync(listener.address)
        assert summary.entries_received == len(recorded)
        assert b.heights() == a.heights()


@pytest.mark.parametrize(
    "text", ["x", '{"entry": "00"}', '{"entry": "zz", "operation": ""}', '{"chains": 3}', "[]"]
)
def test_text_that_holds_no_logs_is_refused(text: str) -> None:
    with pytest.raises(InterchangeError):
        list(read_pairs(io.StringIO(text + "\n")))


def test_fields_have_types() -> None:
    hash_text = "0020" + "ab" * 32
    texts = ["a=x=y", "b:int=-3", "c:float=1.5", "d:bool=true", f"e:relation={hash_text}", "f:bytes=00"]
    fields = parse_fields(texts)
    expected = {"a": "x=y", "b": -3, "c": 1.5, "d": True, "e": bytes.fromhex(hash_text), "f": b"\x00"}
    assert fields == expected
    for wrong in ("a", "=x", "a:int=x", "a:bool=1", "a:colour=red"):
        with pytest.raises(AuthoringError):
            parse_fields([wrong])


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    made = make_key(tmp_path / "peer")
    path = tmp_path / "peer" / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(tmp_path / "peer").public_key == made.public_key
    with pytest.raises(KeyFileError):
        make_key(tmp_path / "peer")
    path.chmod(0o644)
    with pytest.raises(KeyFileError):
        load_key(tmp_path / "peer")
    assert made.private_key.hex() not in repr(made)


async def test_an_error_in_the_body_reaches_the_caller_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with reference_peer(tmp_path, "a"):
            raise KeyError("mine")
    assert json.dumps([task.get_name() for task in asyncio.all_tasks()]).count("Task") <= 1


@pytest.mark.parametrize("text", ["garbage", "00ff", ""])
def test_a_malformed_key_file_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    make_key(tmp_path / "peer")
    (tmp_path / "peer" / KEY_FILE).write_text(text)
    with pytest.raises(KeyFileError) as raised:
        load_key(tmp_path / "peer")
    assert "64 hexadecimal digits" in str(raised.value.hint)


def test_a_peer_without_a_key_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError) as raised:
        ReferencePeer(tmp_path)
    assert raised.value.hint is not None
