"""Values of the SDS topics: read again as written, in one encoding only, as the CDDL says."""

from importlib.resources import files
from typing import Any

import cbor2
import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.errors import RecordError
from culm_topics.sds.catalogue import SDS
from culm_topics.sds.records import (
    MAX_FETCH_ENTRIES,
    MAX_ID_BYTES,
    SdsAckRecord,
    SdsChannelRecord,
    SdsCommandRecord,
    SdsEventRecord,
    SdsFetchRecord,
    SdsIndexRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
    SdsOwnerRecord,
    SdsParticipantRecord,
    check_of,
    is_id,
)
from culm_topics.sds.records.acks import ACK_STATES
from culm_topics.sds.records.commands import COMMANDS
from culm_topics.sds.records.events import EVENT_KINDS
from culm_topics.sds.records.outbound import OUT_KINDS
from culm_topics.sds.records.owners import OWNED_ROLES
from culm_topics.sds.records.shape import MAX_DETAIL_ITEMS, MAX_DETAILS, PROFILES
from tests.support.record_rules import has_one_encoding, is_read_as_written, refuses_junk

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
blobs = st.binary(max_size=300) | st.integers(65530, 65540).map(bytes)
ids = st.text(min_size=1, max_size=80) | st.just("i" * MAX_ID_BYTES)
senders = st.text(max_size=80)
profiles = st.sampled_from(PROFILES)
hints = st.none() | st.binary(max_size=40) | st.just(bytes(1024))
peer_ids = st.none() | st.binary(min_size=32, max_size=32)
entries = st.builds(HistoryEntry, ids, hints, st.none() | senders)
details = st.dictionaries(
    st.text(min_size=1, max_size=16),
    st.none()
    | st.booleans()
    | uints
    | st.floats(allow_nan=False, allow_infinity=False)
    | senders
    | st.binary(max_size=40)
    | st.lists(senders, max_size=30).map(tuple),
    max_size=9,
)

RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "sds-in": st.builds(
        SdsInRecord, profiles, blobs, peer_ids, hints, st.none() | st.binary(min_size=8, max_size=32)
    ),
    "sds-commands": st.builds(
        SdsCommandRecord,
        st.sampled_from(COMMANDS),
        profiles,
        ids,
        st.binary(min_size=16, max_size=16),
        st.none() | blobs,
        st.none() | ids,
        details,
        peer_ids,
    ),
    "sds-messages": st.builds(SdsMessageRecord, profiles, ids, senders, uints, blobs, hints),
    "sds-index": st.builds(
        SdsIndexRecord,
        st.integers(0, 2**31 - 1),
        uints.map(lambda number: number >> 1),
        uints,
        senders,
        uints.map(lambda number: number >> 32),
        st.binary(min_size=4, max_size=4),
        hints,
    ),
    "sds-owners": st.builds(
        SdsOwnerRecord,
        st.sampled_from(OWNED_ROLES),
        profiles,
        peer_ids,
        uints,
    ),
    "sds-out": st.builds(SdsOutRecord, profiles, st.sampled_from(OUT_KINDS), ids, ids, blobs),
    "sds-events": st.builds(
        SdsEventRecord,
        uints.map(lambda number: max(number, 1)),
        st.sampled_from(EVENT_KINDS),
        st.none() | ids,
        senders,
        uints,
        details,
        st.none() | blobs,
    ),
    "sds-fetch": st.builds(
        SdsFetchRecord,
        profiles,
        st.lists(entries, min_size=1, max_size=30).map(tuple),
        uints,
    ),
    "sds-acks/sds-channel": st.builds(
        SdsChannelRecord,
        profiles,
        uints,
        uints,
        uints,
        uints,
        uints,
        uints,
        uints,
        uints,
        uints,
        st.none() | uints,
    ),
    "sds-acks/sds-participant": st.builds(SdsParticipantRecord, uints, uints, uints),
    "sds-acks/sds-ack": st.builds(
        SdsAckRecord,
        st.sampled_from(ACK_STATES),
        st.lists(senders, max_size=64).map(tuple),
        uints,
        st.none() | uints,
    ),
}
SAMPLES: dict[str, Any] = {
    "sds-owners": SdsOwnerRecord("hosted", "spec", bytes(32), 5),
    "sds-in": SdsInRecord("js", b"wire", bytes(32), b"hint", b"connector"),
    "sds-commands": SdsCommandRecord(
        "send",
        "spec",
        "ann",
        bytes(16),
        b"content",
        "id",
        {"bloom_error_rate": 0.5, "bloom_capacity": 100},
        bytes(32),
    ),
    "sds-messages": SdsMessageRecord("nim", "id", "ann", 1_763_000_000, b"wire", b"hint"),
    "sds-index": SdsIndexRecord(3, 9, 1_763_000_000, "ann", 300, bytes(4), b"hint"),
    "sds-out": SdsOutRecord("spec", "retry", "ann", "id", b"wire"),
    "sds-events": SdsEventRecord(
        7, "delivered", "ann", "id", 5, {"gap": ("other",), "position": 3, "late": True}, b"content"
    ),
    "sds-fetch": SdsFetchRecord("js", (HistoryEntry("id", b"hint", "ann"), HistoryEntry("other")), 1),
    "sds-acks/sds-channel": SdsChannelRecord("js", 5, 6, 7, 1, 1, 0, 2, 3, 99, 8),
    "sds-acks/sds-participant": SdsParticipantRecord(5, 1, 2),
    "sds-acks/sds-ack": SdsAckRecord("possibly_acknowledged", ("ben",), 2, 900),
}


def schema(name: str) -> pycddl.Schema:
    """The rules of one record: `file`, or `file/rule` where a topic holds several kinds."""
    file, _, rule = name.partition("/")
    text = files("culm_topics").joinpath("sds", "cddl", f"{file}.cddl").read_text()
    return pycddl.Schema(f"record = {rule}\n{text}" if rule else text)


def test_every_record_of_the_sds_topics_is_tested_here() -> None:
    described = {topic.cddl for topic in SDS}
    assert described == {f"sds/cddl/{name.partition('/')[0]}.cddl" for name in RECORDS}
    assert set(RECORDS) == set(SAMPLES)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_read_as_it_was_written_and_fits_its_cddl(name: str) -> None:
    is_read_as_written(RECORDS[name], schema(name))


@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_breaks_the_cddl_is_refused(name: str) -> None:
    """Each item in turn becomes something else; what the CDDL refuses, `decode` refuses too."""
    record = SAMPLES[name]
    rules = schema(name)
    items = cbor2.loads(record.encode())
    strangers: list[Any] = [
        None,
        -1,
        2**64,
        1.5,
        True,
        "text",
        "x" * (MAX_ID_BYTES + 1),
        b"bytes",
        bytes(1025),
        [],
        {},
        [1, 2, 3],
        [["id", None, None]] * (MAX_FETCH_ENTRIES + 1),
        ["sender"] * 65,
        {"a": {}},
        {1: 1},
        {"a": [1]},
        cbor2.CBORTag(9, 1),
    ]
    refused = 0
    for place in range(len(items)):
        for stranger in strangers:
            changed = cbor2.dumps([*items[:place], stranger, *items[place + 1 :]])
            try:
                # pycddl fails on bytes where the rule names texts; no text may be bytes in any of these.
                if isinstance(items[place], str) and isinstance(stranger, bytes):
                    raise pycddl.ValidationError
                rules.validate_cbor(changed)
            except pycddl.ValidationError:
                refused += 1
                with pytest.raises(RecordError):
                    type(record).decode(changed)
    assert refused > len(items)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_read_fits_the_cddl(name: str) -> None:
    """The other way round: what `decode` takes of the same changes, the CDDL takes."""
    record = SAMPLES[name]
    rules = schema(name)
    items = cbor2.loads(record.encode())
    others: list[Any] = [None, 0, 7, 2**64 - 1, "", "js", "id", b"", bytes(4), bytes(16), bytes(32), {}, []]
    taken = 0
    for place in range(1, len(items)):
        for stranger in others:
            changed = cbor2.dumps([*items[:place], stranger, *items[place + 1 :]])
            try:
                type(record).decode(changed)
            except RecordError:
                continue
            taken += 1
            rules.validate_cbor(changed)
    assert taken


@pytest.mark.parametrize("name", SAMPLES)
def test_only_the_shortest_encoding_is_read(name: str) -> None:
    has_one_encoding(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
@given(junk=st.binary(max_size=200))
def test_junk_is_refused_with_the_record_error_alone(name: str, junk: bytes) -> None:
    refuses_junk(type(SAMPLES[name]), junk)


@pytest.mark.parametrize(
    "details",
    [
        {"b": 1, "a": 1},
        {"": 1},
        {"x" * 65: 1},
        {f"{number:02}": 1 for number in range(MAX_DETAILS + 1)},
        {"a": ["x"] * (MAX_DETAIL_ITEMS + 1)},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": -1},
        {"a": ["x", 1]},
        {"a": {"b": 1}},
    ],
)
def test_details_out_of_order_or_bounds_are_refused(details: dict[str, Any]) -> None:
    for items, decode in (
        ([1, 7, "lost", None, "id", 5, details, None], SdsEventRecord.decode),
        ([1, "join", "js", "ann", bytes(16), None, None, details], SdsCommandRecord.decode),
    ):
        with pytest.raises(RecordError):
            decode(cbor2.dumps(items))


def test_a_float_is_read_in_one_width_only() -> None:
    event = SdsEventRecord(7, "lost", None, "id", 5, {"a": 0.5})
    value = event.encode()
    half = value.replace(bytes.fromhex("fb3fe0000000000000"), bytes.fromhex("f93800"))
    assert cbor2.loads(half) == cbor2.loads(value)
    with pytest.raises(RecordError):
        SdsEventRecord.decode(half)


@given(details, st.randoms())
def test_equal_details_give_equal_bytes_in_whatever_order_they_were_put(known: Any, order: Any) -> None:
    shuffled = list(known.items())
    order.shuffle(shuffled)
    events = [SdsEventRecord(7, "lost", None, "id", 5, items) for items in (known, dict(shuffled))]
    assert events[0].encode() == events[1].encode()


def test_an_event_has_a_number_from_one() -> None:
    with pytest.raises(RecordError, match="number"):
        SdsEventRecord.decode(cbor2.dumps([1, 0, "lost", None, "id", 5, {}, None]))


def test_the_bound_of_an_id_counts_bytes_and_not_letters() -> None:
    assert is_id("é" * 512)
    assert not is_id("é" * 513)
    assert not is_id("")
    assert is_id("", empty=True)


def test_the_check_is_the_start_of_sha_256() -> None:
    assert check_of(b"") == bytes.fromhex("e3b0c442")
