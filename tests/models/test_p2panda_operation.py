import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import cbor
from culm_models.bamboo import hashes as yasmf
from culm_models.errors import CulmError
from culm_models.p2panda.errors import (
    ActionError,
    FieldOrderError,
    MalformedOperationError,
    OperationError,
    OperationItemCountError,
    PreviousError,
    ValueKindError,
    VersionError,
)
from culm_models.p2panda.operations import identifiers, operation
from culm_models.p2panda.operations import reader as operation_reader
from culm_models.p2panda.operations.operation import Value
from tests.support.p2panda import vectors

SCHEMA = vectors.read("published.json")["schema_id"]
ONE, TWO, THREE = sorted(yasmf.hash_bytes(data) for data in (b"one", b"two", b"three"))

operation_ids = st.binary(max_size=4).map(yasmf.hash_bytes)
views = st.lists(operation_ids, min_size=1, max_size=4).map(identifiers.view_id)
field_values = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
    | st.binary(max_size=40)
    | st.lists(operation_ids, max_size=4).map(tuple)
    | st.lists(views, min_size=1, max_size=3).map(tuple)
)
all_fields = st.dictionaries(st.text(max_size=8), field_values, max_size=5)


@given(views, all_fields)
def test_an_operation_survives_the_round_trip(view: tuple[bytes, ...], fields: dict[str, Value]) -> None:
    cases: list[tuple[operation.Action, tuple[bytes, ...] | None, dict[str, Value] | None]] = [
        ("create", None, fields),
        ("update", view, fields),
        ("delete", view, None),
    ]
    for action, previous, content in cases:
        data = operation.encode_operation(action, SCHEMA, previous=previous, fields=content)
        decoded = operation.decode_operation(data)
        assert decoded == operation.Operation(1, action, SCHEMA, previous, content)
        if content is not None and decoded.fields is not None:
            kinds = {name: type(value) for name, value in content.items()}
            assert {name: type(value) for name, value in decoded.fields.items()} == kinds
        assert operation.peek(data) == (action, SCHEMA, previous)
        assert operation.peek(data).schema_id == SCHEMA


@given(views, all_fields)
def test_every_truncation_is_refused_and_trailing_bytes_are_not(
    view: tuple[bytes, ...], fields: dict[str, Value]
) -> None:
    data = operation.encode_operation("update", SCHEMA, previous=view, fields=fields)
    for size in range(len(data)):
        with pytest.raises((OperationError, identifiers.SchemaIdError)):
            operation.decode_operation(data[:size])
    assert operation.decode_operation(data + b"\xff\x00") == operation.decode_operation(data)


def _both_readers(data: bytes) -> operation_reader.Parts | None:
    """What the quick way and the patient reader agree on, None where both refuse."""
    results: list[operation_reader.Parts | None] = []
    for read in (_quick, operation_reader.read_operation):
        try:
            results.append(read(data))
        except CulmError:
            results.append(None)
    quick, patient = results
    assert repr(quick) == repr(patient)
    return patient


def _quick(data: bytes) -> operation_reader.Parts:
    decoded = operation.decode_operation(data)
    parts = operation.ACTIONS.index(decoded.action), decoded.schema_id, decoded.previous, decoded.fields
    assert operation.peek(data) == (decoded.action, decoded.schema_id, decoded.previous)
    return parts


ROWS = vectors.read("operation-spellings.json")["operations"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"][:40])
def test_each_spelling_is_judged_as_the_p2panda_library_judges_it(row: dict[str, Any]) -> None:
    parts = _both_readers(bytes.fromhex(row["operation"]))
    assert (parts is not None) == row["decodes"]
    if parts is not None:
        action, schema, previous, _ = parts
        assert operation.ACTIONS[action] == row["action"]
        assert schema == row["schema_id"]
        # The library keeps the letters of an id in text; in bytes there is but one spelling.
        ids = row["previous"]
        assert previous == (None if ids is None else tuple(map(bytes.fromhex, ids)))


def test_mutations_are_judged_as_the_p2panda_library_judges_them() -> None:
    for row in vectors.read("chains.json")["operation_mutations"]:
        assert (_both_readers(bytes.fromhex(row["operation"])) is not None) == row["decodes"], row


bits_of_cbor = st.sampled_from(
    [
        *(b"\xc0", b"\xc2", b"\xc3", b"\xff", b"\x9f", b"\xbf", b"\x5f", b"\x7f", b"\xf4", b"\xf6", b"\xf7"),
        *(b"\xf8\x14", b"\x80", b"\xa0", b"\x40", b"\x60", b"\xc2\x41\x05", b"\x18\x01", b"\x3b", b"\x81"),
        *(b"\x5f\x41a\xff", b"\x7f\x61a\xff", b"\x58\x22" + ONE, b"\x61a\x01"),
    ]
)
good_operations = st.sampled_from(
    [bytes.fromhex(row["operation"]) for row in ROWS if row["decodes"] and len(row["operation"]) < 1000]
)


@given(good_operations, st.data())
def test_damaged_operations_get_one_verdict_from_both_readers(data: bytes, draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(1, 3))):
        start = draw.draw(st.integers(0, len(data)))
        end = start + draw.draw(st.integers(0, 4))
        data = data[:start] + draw.draw(bits_of_cbor | st.binary(max_size=3)) + data[end:]
    _both_readers(data)


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_but_errors_of_ours(data: bytes) -> None:
    _both_readers(data)


@pytest.mark.parametrize(
    ("items", "error"),
    [
        (b"", MalformedOperationError),
        (cbor.dumps({}), MalformedOperationError),
        (cbor.dumps([2, 0, SCHEMA, {}]), VersionError),
        (cbor.dumps([1, 3, SCHEMA, {}]), ActionError),
        (cbor.dumps([True, 0, SCHEMA, {}]), MalformedOperationError),
        (cbor.dumps([]), OperationItemCountError),
        (cbor.dumps([1, 0, SCHEMA]), OperationItemCountError),
        (cbor.dumps([1, 0, SCHEMA, {}, 1]), OperationItemCountError),
        (cbor.dumps([1, 1, SCHEMA, [ONE]]), OperationItemCountError),
        (cbor.dumps([1, 0, "venue", {}]), identifiers.SchemaIdError),
        (cbor.dumps([1, 0, SCHEMA.encode(), {}]), MalformedOperationError),
        (cbor.dumps([1, 0, SCHEMA, None]), MalformedOperationError),
        (cbor.dumps([1, 2, SCHEMA, []]), PreviousError),
        (cbor.dumps([1, 2, SCHEMA, [TWO, ONE]]), PreviousError),
        (cbor.dumps([1, 2, SCHEMA, [ONE, ONE]]), PreviousError),
        (cbor.dumps([1, 2, SCHEMA, [ONE[:-1]]]), PreviousError),
        (cbor.dumps([1, 2, SCHEMA, [[256] * 34]]), PreviousError),
        (cbor.dumps([1, 0, SCHEMA, {"b": 1, "a": 1}]), FieldOrderError),
        (cbor.dumps([1, 0, SCHEMA, {1: 1}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": None}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": 2**63}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": {}}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": [ONE, [ONE]]}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": [[ONE], ""]}]), ValueKindError),
        (cbor.dumps([1, 0, SCHEMA, {"a": [[0] * 34]}]), ValueKindError),
    ],
)
def test_what_is_wrong_with_an_operation_is_named(items: bytes, error: type[CulmError]) -> None:
    for check in (operation.decode_operation, operation.peek):
        with pytest.raises(CulmError) as caught:
            check(items)
        assert type(caught.value) is error


@pytest.mark.parametrize(
    ("action", "previous", "fields", "error"),
    [
        ("create", (ONE,), {}, OperationItemCountError),
        ("create", None, None, OperationItemCountError),
        ("update", None, {}, OperationItemCountError),
        ("delete", (ONE,), {}, OperationItemCountError),
        ("delete", (TWO, ONE), None, PreviousError),
        ("delete", (), None, PreviousError),
        ("create", None, {"a": None}, ValueKindError),
        ("create", None, {"a": 2**63}, ValueKindError),
        ("create", None, {"a": {1, 2}}, ValueKindError),
        ("create", None, {"a": (b"no id",)}, ValueKindError),
    ],
)
def test_operations_that_a_reader_would_refuse_are_not_written(
    action: operation.Action,
    previous: tuple[bytes, ...] | None,
    fields: dict[str, Value],
    error: type[CulmError],
) -> None:
    with pytest.raises(error):
        operation.encode_operation(action, SCHEMA, previous=previous, fields=fields)


def test_field_names_are_sorted_by_their_bytes_and_floats_are_shortest() -> None:
    data = operation.encode_operation(
        "create", SCHEMA, fields={"\U00010000": 1, "\uffff": 1.5, "b": math.inf, "aa": 0.1}
    )
    assert (
        data[data.index(b"\xa4") :].hex() == "a4626161fb3fb999999999999a6162f97c0063efbfbff93e0064f090808001"
    )


def test_operations_are_frozen() -> None:
    decoded = operation.decode_operation(operation.encode_operation("create", SCHEMA, fields={}))
    with pytest.raises(dataclasses.FrozenInstanceError):
        decoded.version = 2  # type: ignore[misc]
