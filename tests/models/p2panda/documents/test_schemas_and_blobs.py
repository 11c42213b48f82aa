"""Definitions of schemas, what does not match them, and blobs: documents that are read by their views."""

from __future__ import annotations

from functools import partial

import pytest

from culm_models.p2panda.documents import typed
from culm_models.p2panda.documents.blobs import read_blob
from culm_models.p2panda.documents.document import AuthoredOperation, DocumentView
from culm_models.p2panda.documents.errors import BlobIncompleteError, BlobLengthError, NotABlobError
from culm_models.p2panda.documents.schemas import ReadView, definition_of, problems_of
from culm_models.p2panda.documents.typed import Typing
from culm_models.p2panda.documents.views import read_view
from culm_models.p2panda.errors import SchemaMismatchError
from culm_models.p2panda.operations.identifiers import DocumentId, DocumentViewId
from culm_models.p2panda.operations.operation import Operation, Value

AUTHOR = bytes(32)
Store = dict[bytes, AuthoredOperation]


def hash_of(number: int) -> bytes:
    return b"\x00\x20" + bytes([number]) * 32


VENUE = f"venue_{hash_of(9).hex()}"


def put(store: Store, number: int, schema: str, previous: tuple[int, ...] | None, **fields: Value) -> None:
    named = None if previous is None else tuple(hash_of(other) for other in previous)
    operation = Operation(1, "create" if previous is None else "update", schema, named, fields)
    store[hash_of(number)] = AuthoredOperation(hash_of(number), AUTHOR, operation)


def views(store: Store) -> ReadView:
    return partial(read_view, read=store.get)


def defined(name: str = "venue", field_type: str = "int") -> Store:
    """A schema whose one field was renamed once."""
    store: Store = {}
    put(store, 1, "schema_field_definition_v1", None, name="places", type=field_type)
    put(store, 2, "schema_field_definition_v1", (1,), name="seats")
    put(store, 9, "schema_definition_v1", None, name=name, description="", fields=((hash_of(2),),))
    return store


def test_a_definition_is_read_from_the_documents_at_the_views_that_it_names() -> None:
    assert definition_of(VENUE, views(defined())) == {"seats": "int"}
    assert definition_of("blob_piece_v1", views({})) == {"data": "bytes"}


@pytest.mark.parametrize("lacking", [1, 2, 9])
def test_a_definition_that_is_not_held_whole_is_not_known(lacking: int) -> None:
    store = defined()
    del store[hash_of(lacking)]
    assert definition_of(VENUE, views(store)) is None


def test_a_definition_may_have_branches() -> None:
    store = defined()
    put(store, 3, "schema_field_definition_v1", (1,), type="str")
    put(store, 4, "schema_field_definition_v1", (2, 3), name="chairs")
    put(store, 9, "schema_definition_v1", None, name="venue", description="", fields=((hash_of(4),),))
    assert definition_of(VENUE, views(store)) == {"chairs": "str"}


def test_what_defines_nothing_is_not_known() -> None:
    assert definition_of(VENUE, views(defined(field_type="colour"))) is None
    deleted = defined()
    deleted[hash_of(2)] = AuthoredOperation(
        hash_of(2), AUTHOR, Operation(1, "delete", "schema_field_definition_v1", (hash_of(1),), None)
    )
    assert definition_of(VENUE, views(deleted)) is None
    other_schema = defined()
    put(other_schema, 2, "blob_v1", (1,), name="seats")
    assert definition_of(VENUE, views(other_schema)) is None


@pytest.mark.parametrize("name", ["", "1st", "a-b", "x" * 65, "(schema)"])
def test_a_field_that_no_document_can_have_is_not_known(name: str) -> None:
    store = defined()
    put(store, 2, "schema_field_definition_v1", (1,), name=name)
    assert definition_of(VENUE, views(store)) is None


def test_cached_schemas_are_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        looks = 0

        def view(self, view_id: DocumentViewId) -> DocumentView | None:
            self.looks += 1
            return views(defined())(view_id)

        def has_document(self, document_id: DocumentId) -> bool:
            return True

        has_operation = has_document

    held = Held()
    typing = Typing(held)
    long = "venue_" + "_".join(hash_of(number).hex() for number in range(10, 30))

    def looks(schema: str) -> int:
        before = held.looks
        assert (typing.fields_of(schema) is None) == (schema == long)
        return held.looks - before

    assert [looks(schema) for schema in (VENUE, long, VENUE, long)] == [2, 1, 0, 0]
    monkeypatch.setattr(typed, "MAX_CACHED_BYTES", 1_000)
    typing.forget_unknown()
    assert [looks(schema) for schema in (VENUE, VENUE, long, long, VENUE, VENUE)] == [0, 0, 1, 1, 2, 0]


def test_a_definition_of_another_name_is_refused() -> None:
    with pytest.raises(SchemaMismatchError):
        definition_of(VENUE, views(defined(name="house")))


def test_a_document_is_held_against_its_schema() -> None:
    store: Store = {}
    put(store, 20, VENUE, None, seats="many", colour="red")
    view = read_view((hash_of(20),), store.get)
    assert view is not None and view.fields is not None
    problems = problems_of(view.fields, {"seats": "int", "name": "str"})
    assert {name: problem.code for name, problem in problems.items()} == {
        "colour": "p2panda.document.field_unknown",
        "name": "p2panda.document.field_missing",
        "seats": "p2panda.document.field_type",
    }
    assert problems_of(view.fields, {"seats": "str", "colour": "str"}) == {}


def blob(length: int, *pieces: bytes) -> tuple[DocumentView, Store]:
    store: Store = {}
    for number, data in enumerate(pieces, 100):
        put(store, number, "blob_piece_v1", None, data=data)
    ids = tuple((hash_of(100 + number),) for number in range(len(pieces)))
    put(store, 99, "blob_v1", None, length=length, mime_type="text/plain", pieces=ids)
    view = read_view((hash_of(99),), store.get)
    assert view is not None
    return view, store


def test_a_blob_is_its_pieces_one_after_the_other() -> None:
    view, store = blob(7, b"cu", b"lm ", b"42")
    assert list(read_blob(view, views(store))) == [b"cu", b"lm ", b"42"]
    assert list(read_blob(*_with_views(blob(0)))) == []


def _with_views(made: tuple[DocumentView, Store]) -> tuple[DocumentView, ReadView]:
    return made[0], views(made[1])


def test_a_blob_without_a_piece_gives_what_comes_before_it() -> None:
    view, store = blob(7, b"cu", b"lm ", b"42")
    del store[hash_of(101)]
    read: list[bytes] = []
    with pytest.raises(BlobIncompleteError, match="piece 2 of 3"):
        read.extend(read_blob(view, views(store)))
    assert read == [b"cu"]


@pytest.mark.parametrize("length", [6, 8])
def test_a_blob_whose_pieces_have_another_length_is_refused_in_the_end(length: int) -> None:
    with pytest.raises(BlobLengthError):
        list(read_blob(*_with_views(blob(length, b"cu", b"lm ", b"42"))))


def test_a_document_of_another_schema_is_no_blob() -> None:
    store: Store = {}
    put(store, 1, VENUE, None, length=1, pieces=())
    view = read_view((hash_of(1),), store.get)
    assert view is not None
    with pytest.raises(NotABlobError):
        read_blob(view, views(store))
