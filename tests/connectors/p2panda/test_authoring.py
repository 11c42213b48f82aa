"""What a reference peer signs is what p2panda nodes take; what no peer would take is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.p2panda.reference_peer.authoring import AuthoringError, Draft
from culm_connectors.p2panda.reference_peer.field_texts import parse_fields
from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.reference_peer.sync_progress import EntryReport, SyncFailed
from culm_connectors.p2panda.settings import SessionSettings
from culm_connectors.transport import CloseCode
from culm_models.errors import CulmError
from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.operation import CheckedOperation, Value, decode_operation
from culm_models.p2panda.operations.schema import FIELD_TYPES
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.connectors.edge import reference_peer, write_document
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

ID = "0020" + "ab" * 32
OTHER = "0020" + "cd" * 32


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=x=y", "x=y"),
        ("a:int=-3", -3),
        ("a:int=9223372036854775807", 2**63 - 1),
        ("a:bytes=", b""),
        ("a:relation_list=", ()),
        ("a:pinned_relation_list=", ()),
        (f"a:pinned_relation={OTHER},{ID}", (bytes.fromhex(ID), bytes.fromhex(OTHER))),
        (f"a:pinned_relation_list={OTHER};{ID}", ((bytes.fromhex(OTHER),), (bytes.fromhex(ID),))),
    ],
)
def test_a_field_is_read(text: str, value: Value) -> None:
    assert parse_fields([text]) == {"a": value}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "=x",
        "a:int=9223372036854775808",
        "a:int=1_0",
        "a:int=",
        "a:bool=1",
        "a:colour=red",
        "a:=x",
        "a:bytes=0",
        "a:relation=",
        "a:relation=00",
        f"a:relation={ID}00",
        f"a:relation_list={ID},",
        "a:pinned_relation=",
        f"a:pinned_relation={ID},{ID}",
        f"a:pinned_relation_list={ID};",
        f"a:pinned_relation_list={ID};{ID},{ID}",
    ],
)
def test_a_text_that_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(AuthoringError):
        parse_fields([text])


def test_a_field_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x")
    with pytest.raises(AuthoringError, match="twice"):
        parse_fields(["a=1", "a=2"])
    with pytest.raises(AuthoringError, match="twice"):
        parse_fields(["a=1"], [f"a={tmp_path / 'data'}"])


def test_a_wrong_type_is_answered_with_all_types() -> None:
    with pytest.raises(AuthoringError) as refusal:
        parse_fields(["a:colour=red"])
    assert refusal.value.hint == f"one of {', '.join(FIELD_TYPES)}"


def test_a_field_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a=b"
    path.write_bytes(b"\x00\xff")
    assert parse_fields([], [f"data={path}"]) == {"data": b"\x00\xff"}
    with pytest.raises(AuthoringError, match="UTF-8"):
        parse_fields([], [f"text:str={path}"])
    path.write_text("12\n")
    assert parse_fields([], [f"text:str={path}", f"number:int={path}"]) == {"text": "12\n", "number": 12}


def test_a_file_that_no_operation_can_hold_is_refused_before_all_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(AuthoringError, match="no operation can hold"):
        parse_fields([], [f"data={path}"])
    with pytest.raises(AuthoringError, match="cannot be read"):
        parse_fields([], [f"data={tmp_path}"])


async def test_an_operation_that_nodes_refuse_is_not_signed(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        for draft in (
            Draft("create", SCHEMA, {}),
            Draft("create", SCHEMA, {"9": 1}),
            Draft("create", SCHEMA, {"a": ((),)}),
            Draft("create", "blob_v1", {"length": 1, "mime_type": "Text", "pieces": ()}),
            Draft("create", "blob_piece_v1", {"data": "x"}),
            Draft("create", "blob_v2", {"length": 1}),
        ):
            with pytest.raises(SchemaMismatchError):
                await peer.publish([draft])
        assert peer.heights() == {}


async def test_fields_are_checked_against_a_definition_that_is_held(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        field: dict[str, Value] = {"name": "seats", "type": "int"}
        (seats,) = await peer.publish([Draft("create", "schema_field_definition_v1", field)])
        fields: dict[str, Value] = {"name": "venue", "description": "", "fields": ((seats.hash,),)}
        (definition,) = await peer.publish([Draft("create", "schema_definition_v1", fields)])
        schema = f"venue_{definition.hash.hex()}"
        wrong_ones: list[dict[str, Value]] = [{"seats": "12"}, {"seats": 12, "name": "x"}, {"seat": 12}]
        for wrong in wrong_ones:
            with pytest.raises(SchemaMismatchError):
                await peer.publish([Draft("create", schema, wrong)])
        (venue,) = await peer.publish([Draft("create", schema, {"seats": 12})])
        assert decode_operation(venue.payload_bytes).fields == {"seats": 12}


async def test_a_schema_id_is_written_in_its_canonical_spelling(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as peer:
        (piece,) = await peer.publish([Draft("create", "blob_piece_v+01", {"data": b"x"})])
        assert decode_operation(piece.payload_bytes).schema_id == "blob_piece_v1"
        assert b"blob_piece_v1" in piece.payload_bytes


TOO_LARGE = "p2panda.operation.too_large"


def a_log_with_an_oversized_entry() -> list[CheckedOperation]:
    """Three entries, as stores of earlier versions may hold them: the second is too large for any reader."""
    writer = LogWriter(author("large"), 0, SCHEMA)
    writer.append()
    writer.append({"data": bytes(MAX_OPERATION_BYTES)})
    writer.append()
    return writer.entries


async def codes_of(peer: ReferencePeer, log: list[CheckedOperation]) -> list[str | None]:
    return [error.code if error else None for error in await peer.add(pairs(log))]


@pytest.mark.parametrize("mode", ["heights", "ranges"])
async def test_an_oversized_entry_in_a_store_holds_up_its_own_log_only(tmp_path: Path, mode: str) -> None:
    sessions = SessionSettings.model_validate({"mode": mode})
    large = a_log_with_an_oversized_entry()
    async with (
        reference_peer(tmp_path, "a") as a,
        reference_peer(tmp_path, "b", live_mode=False, sessions=sessions) as b,
    ):
        b.store.append(large)
        for _ in range(3):
            await write_document(b, 2)
        async with a.serve() as listener:
            first = await b.sync(listener.address)
            again = await b.sync(listener.address)
        assert a.heights() == {**b.heights(), large[0].log: 1}
        assert a.driver.metrics.rejects.total() == 0
        for summary in (first, again):
            assert summary.undelivered == [EntryReport(TOO_LARGE, *large[0].log, 2)]
            assert not summary.is_complete
        assert (first.entries_sent, again.entries_sent) == (10, 0)


async def test_what_follows_an_oversized_entry_is_not_sent_live_either(tmp_path: Path) -> None:
    large = a_log_with_an_oversized_entry()
    later = make_log(author("large"), 0, 2, after=large)
    async with (
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
        reference_peer(tmp_path, "b", schemas=[SCHEMA]) as b,
        a.serve() as listener,
    ):
        b.store.append(large)
        b.dial(listener.address)
        await a.wait_until_holding({large[0].log: 1}, 20)
        assert await codes_of(b, later) == [None, None]
        written = await write_document(b)
        await a.wait_until_holding({written[0].log: 1}, 20)
        assert a.driver.metrics.rejects.total() == 0
        assert b.driver.metrics.withheld_logs == 1


async def test_an_oversized_operation_is_neither_signed_nor_stored(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a:
        (created,) = await write_document(a)
        larger = Draft("update", SCHEMA, {"data": bytes(MAX_OPERATION_BYTES)}, created.hash)
        with pytest.raises(CulmError) as refused:
            await a.publish([Draft("create", SCHEMA, {"name": "not alone"}), larger])
        assert refused.value.code == TOO_LARGE
        assert a.heights() == {created.log: 1}, "all of them or none"
        assert await codes_of(a, a_log_with_an_oversized_entry()) == [
            None,
            TOO_LARGE,
            "bamboo.backlink_unknown",
        ]
        fitting = Draft("create", SCHEMA, {"data": bytes(MAX_OPERATION_BYTES - 200)})
        (large,) = await a.publish([fitting])
        async with reference_peer(tmp_path, "b", live_mode=False) as b, a.serve() as listener:
            summary = await b.sync(listener.address)
            assert summary.is_complete
            assert b.store.height(*large.log) == 1


async def test_an_update_keeps_to_the_schema_and_the_document_that_it_names(tmp_path: Path) -> None:
    mine = make_log(author("someone"), 0, 1)
    async with reference_peer(tmp_path, "a") as a:
        (created,) = await write_document(a)
        (other,) = await write_document(a)
        await a.add(pairs(mine))
        for draft in (
            Draft("update", OTHER_SCHEMA, {"name": "x"}, created.hash),
            Draft("update", OTHER_SCHEMA, {"name": "x"}, mine[0].hash, previous=(mine[0].hash,)),
            Draft("update", SCHEMA, {"name": "x"}, created.hash, previous=(other.hash,)),
            Draft("update", SCHEMA, {"name": "x"}, mine[0].hash, previous=(created.hash,)),
        ):
            with pytest.raises(CulmError) as refused:
                await a.publish([draft])
            assert refused.value.code in ("p2panda.log.schema", AuthoringError.code)
        assert set(a.heights().values()) == {1}, "nothing was signed"


async def test_what_is_imported_passes_the_checks_of_what_peers_bring(tmp_path: Path) -> None:
    writer = LogWriter(author("writer"), 0, SCHEMA)
    writer.append()
    writer.append(end_of_log=True)
    after_end = writer.append()
    elsewhere = LogWriter(author("writer"), 1, SCHEMA)
    elsewhere.append(previous=(writer.entries[0].hash,))
    async with reference_peer(tmp_path, "a") as a:
        assert await codes_of(a, writer.entries) == [None, None, "bamboo.after_end_of_log"]
        assert await codes_of(a, elsewhere.entries) == ["bamboo.log_id"]
        assert a.heights() == {after_end.log: 2}


async def test_a_summary_names_what_was_refused(tmp_path: Path) -> None:
    log = make_log(author("writer"), 3, 3)
    fork = make_log(author("writer"), 3, 3, text="other", after=log[:1])
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        await a.add(pairs(log[:1] + fork))
        await b.add(pairs(log))
        async with a.serve() as listener:
            summary = await b.sync(listener.address)
        assert summary.refused == [EntryReport("bamboo.backlink_mismatch", *log[0].log, 4)]
        assert not summary.is_complete


async def test_a_remote_that_ends_the_connection_early_is_no_success(tmp_path: Path) -> None:
    async with reference_peer(tmp_path, "a") as a, reference_peer(tmp_path, "b", live_mode=False) as b:
        await write_document(a, 2)
        await write_document(b, 2)
        b.listeners.append(lambda _: a.driver.disconnect(b.peer_id, CloseCode.TOO_LARGE, "no more"))
        async with a.serve() as listener:
            with pytest.raises(SyncFailed):
                await b.sync(listener.address)
            b.listeners.clear()
            await until(lambda: not a.driver.links.open)
            await b.sync(listener.address)
        assert a.heights() == b.heights()
