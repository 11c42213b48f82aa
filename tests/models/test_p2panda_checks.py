import dataclasses
import pickle
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import bamboo, cbor
from culm_models.bamboo import errors
from culm_models.bamboo.checks import CheckedEntry, check_entry
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from culm_models.p2panda.errors import OperationError
from culm_models.p2panda.operations import operation
from tests.support.p2panda import vectors

PAIRS = vectors.pairs()
ROWS = vectors.chain_entries()


def test_every_entry_of_the_chains_passes_with_what_its_operation_says() -> None:
    for (entry_bytes, operation_bytes), row in zip(PAIRS, ROWS, strict=True):
        checked = operation.check_entry(entry_bytes, operation_bytes)
        decoded = operation.decode_operation(operation_bytes)
        assert checked == CheckedEntry(
            bamboo.decode_entry(entry_bytes),
            entry_bytes,
            operation_bytes,
            bytes.fromhex(row["hash"]),
            operation.OperationFacts(row["action"], row["schema_id"], decoded.previous),
        )
        assert checked.log == (bytes.fromhex(row["public_key"]), int(row["log_id"]))


class BareLog(NamedTuple):
    """The facts of a payload that nobody reads."""

    schema_id: str = ""
    previous: None = None
    deletes: bool = False


def test_an_entry_of_a_bare_log_is_checked_without_a_look_into_its_payload() -> None:
    payload = b"no operation"
    entry_bytes = bamboo.sign_entry(KeyPair.generate(b"author"), 3, 1, payload)
    checked = check_entry(entry_bytes, payload, lambda _: BareLog())
    assert (checked.schema_id, checked.payload_bytes, checked.log[1]) == ("", payload, 3)
    with pytest.raises(errors.PayloadHashError):
        check_entry(entry_bytes, b"NO OPERATION", lambda _: BareLog())
    with pytest.raises(errors.SignatureError):
        check_entry(entry_bytes[:-1] + bytes((entry_bytes[-1] ^ 1,)), payload, lambda _: BareLog())


def test_checked_entries_are_frozen() -> None:
    checked = operation.check_entry(*PAIRS[0])
    assert type(checked) is CheckedEntry
    with pytest.raises(dataclasses.FrozenInstanceError):
        checked.hash = b""  # type: ignore[misc]


def test_each_part_is_checked() -> None:
    entry_bytes, operation_bytes = PAIRS[0]
    forged = entry_bytes[:-1] + bytes((entry_bytes[-1] ^ 1,))
    with pytest.raises(errors.SignatureError):
        operation.check_entry(forged, operation_bytes)
    assert operation.check_entry(forged, operation_bytes, verify_signature=False).entry_bytes == forged
    with pytest.raises(errors.PayloadSizeError):
        operation.check_entry(entry_bytes, operation_bytes + b"\x00")
    with pytest.raises(errors.PayloadHashError):
        operation.check_entry(entry_bytes, operation_bytes[:-1] + bytes((operation_bytes[-1] ^ 1,)))
    payload = cbor.dumps([1, 0, "no schema", {}])
    with pytest.raises(CulmError) as caught:
        operation.check_entry(bamboo.sign_entry(KeyPair.generate(b"author"), 0, 1, payload), payload)
    assert caught.value.code == "p2panda.schema_id"
    with pytest.raises(OperationError):
        operation.check_entry(bamboo.sign_entry(KeyPair.generate(b"author"), 0, 1, b""), b"")


def test_a_chunk_gives_one_result_an_item_in_order_and_never_raises() -> None:
    entry_bytes, operation_bytes = PAIRS[0]
    chunk = [
        PAIRS[0],
        (b"", b""),
        (entry_bytes, b""),
        (entry_bytes[:-1] + b"\xff", operation_bytes),
        PAIRS[1],
    ]
    results = operation.check_many(chunk)
    codes = [result.code if isinstance(result, CulmError) else "" for result in results]
    assert codes == ["", "bamboo.truncated", "bamboo.payload_size", "bamboo.signature", ""]
    assert [bool(result) for result in operation.check_many(iter(()))] == []
    unverified = operation.check_many(chunk, verify_signature=False)
    assert isinstance(unverified[3], CheckedEntry)


@given(st.lists(st.tuples(st.binary(max_size=250), st.binary(max_size=60)), max_size=4))
def test_no_bytes_make_a_chunk_raise(chunk: list[tuple[bytes, bytes]]) -> None:
    results = operation.check_many(chunk)
    assert len(results) == len(chunk)
    assert all(isinstance(result, CulmError) for result in results)


def test_results_travel_between_processes() -> None:
    results = operation.check_many([PAIRS[0], (b"", b"")])
    returned = pickle.loads(pickle.dumps(results))
    assert returned[0] == results[0]
    assert (type(returned[1]), str(returned[1])) == (errors.TruncatedEntryError, str(results[1]))
