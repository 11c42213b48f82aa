"""What is refused, with its code (reference 4.5, 4.6), what is not, and the order of the checks."""

from __future__ import annotations

import random

import pytest

from culm_models.chotki import errors
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.events import SessionRefused
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.packet import LETTERS, parse, read_bye
from culm_models.chotki.packets.parcels import block_vector, write_end, write_parcel
from culm_models.chotki.replica import Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.tlv import long_record, record
from tests.models.chotki.wire import NAME, NOW, TRACE, Wire, counter, edit, new_object, text

T = Id(0xB, 3)
OBJECT = Id.make(0xC, 1)
CODES = {
    value.code
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, ChotkiError)
}
H = write_handshake(T, 7, bytes.fromhex("76020b03"), TRACE)


def e(body: bytes, *, id: Id | None = None, ref: Id = OBJECT) -> bytes:
    return write_live("E", id if id is not None else Id.make(0xB, 9), ref, body)


def d(*fields: bytes, t: Id = T, block: bytes = b"\x0b") -> bytes:
    return long_record("D", record("T", t.zip()), record("R", block), *fields)


def refused(data: bytes, compat: Compat = Compat.DEFAULT, *, first: bytes = H, src: int = 0xA) -> str | None:
    """The code with which a replica refuses bytes behind a handshake, None if it takes them."""
    replica = Replica(src, compat=compat)
    replica.open_session(NAME, NOW)
    output = replica.receive(NAME, first + data, NOW)
    refusals = [event for event in output.events_of(NAME) if isinstance(event, SessionRefused)]
    if not refusals:
        return None
    assert output.closed == [NAME]
    assert read_bye(output.of(NAME)[-1]) == (refusals[0].code if compat is Compat.DEFAULT else "closing")
    assert replica.receive(NAME, e(edit(1, text("S", "late"))), NOW).events == []
    return refusals[0].code


SHORT = text("S", "x")
BAD_PAIR = bytes(7)
# Name: bytes behind a handshake, the code by default, the code with compat=go (None: taken).
ROWS: dict[str, tuple[bytes, str | None, str | None]] = {
    "no header": (b"\0", "chotki.record", "chotki.record"),
    "length beyond 31 bits": (b"E\0\0\0\x80", "chotki.record", "chotki.record"),
    "too long": (b"E\0\0\0\x7f", "chotki.record_size", "chotki.record_size"),
    "unknown letter": (record("Q", record("I", b"\x0b")), "chotki.letter", "chotki.letter"),
    "tiny packet": (b"30bc", "chotki.letter", "chotki.letter"),
    "no I": (record("E", record("R", b"\x0b")), "chotki.packet", "chotki.packet"),
    "no T": (record("D", record("I", b"\x0b")), "chotki.packet", "chotki.packet"),
    "empty packet": (record("E"), "chotki.packet", "chotki.packet"),
    "I longer than its packet": (record("E", b"i\xff\x0b"), "chotki.packet", "chotki.packet"),
    "T longer than its packet": (record("D", b"t\x05\x0b"), "chotki.packet", "chotki.packet"),
    "R longer than its packet": (record("E", b"i\x01\x0br\x09"), "chotki.packet", "chotki.packet"),
    "field longer than its packet": (e(b"f\x01\x01s\x09"), "chotki.packet", "chotki.packet"),
    "a number without value": (e(b"f\x01\x01"), "chotki.packet", "chotki.packet"),
    "a value where a number is": (e(SHORT + SHORT), "chotki.packet", "chotki.packet"),
    "ping without stamp": (record("P", b"ping"), "chotki.packet", "chotki.packet"),
    "reference 0-0 of E": (e(edit(1, SHORT), ref=Id(0, 0)), "chotki.reference", "chotki.reference"),
    "no reference of O": (
        record("O", record("I", b"\x0b\0\0\x10"), SHORT),
        "chotki.reference",
        "chotki.reference",
    ),
    "reference of Y": (
        write_live("Y", Id.make(0xB, 9), OBJECT, SHORT),
        "chotki.reference",
        "chotki.reference",
    ),
    "offset of I": (e(edit(1, SHORT), id=Id(0xB, 0x9001)), "chotki.offset", "chotki.offset"),
    "offset of R": (e(edit(1, SHORT), ref=Id(0xC, 0x1001)), "chotki.offset", "chotki.offset"),
    "field number": (e(record("F", b"\0\x10") + SHORT), "chotki.offset", "chotki.offset"),
    "long field number": (e(record("F", bytes(8) + b"\x01") + SHORT), "chotki.offset", "chotki.offset"),
    "own id with offset": (e(b"", id=Id(0xA, 0x5001)), "chotki.own_id", "chotki.own_id"),
    "own id beyond": (e(b"", id=Id(0xA, 0x5000)), None, None),
    "own id of before": (write_live("Y", Id(0xA, 0), Id(0, 0), SHORT), None, None),
    "pair of I": (record("E", record("I", BAD_PAIR), record("R", b"\x0c")), "chotki.pair_length", None),
    "pair of R": (record("C", record("I", b"\x0b"), record("R", BAD_PAIR)), "chotki.pair_length", None),
    "pair of T": (
        record("D", record("T", BAD_PAIR), record("R", b"")),
        "chotki.pair_length",
        "chotki.sync_unknown",
    ),
    "pair of a stamp": (e(edit(1, record("S", record("t", BAD_PAIR)))), "chotki.pair_length", None),
    "unknown type in E": (e(edit(1, record("X", b"any"))), "chotki.field_letter", None),
    "tiny value in E": (e(edit(1, b"12")), "chotki.field_letter", "chotki.field_letter"),
    "unknown type in D": (d(edit(1, record("X", b"any"))), "chotki.field_letter", None),
    "tiny value in D": (d(edit(1, b"12")), "chotki.field_letter", "chotki.field_letter"),
    "no stamp in E": (e(edit(1, record("S", b"x"))), "chotki.value", "chotki.value"),
    "no stamp in D": (d(edit(1, record("S", b"x"))), "chotki.value", None),
    "cut stamp in D": (d(edit(1, record("S", b"3\x01"))), "chotki.value", None),
    "nine bytes of I": (e(edit(1, record("I", b"0" + bytes(9)))), "chotki.value", None),
    "N without pair": (e(edit(1, record("N", b"n"))), "chotki.value", None),
    "lone key of M": (d(edit(1, record("M", SHORT))), "chotki.value", None),
    "class of one letter": (
        write_live("C", Id.make(0xB, 9), Id(0, 0), record("T", b"1\x02S")),
        "chotki.value",
        None,
    ),
    "diff of an unknown sync": (d(t=Id(0xB, 4)), "chotki.sync_unknown", "chotki.sync_unknown"),
    "end of an unknown sync": (write_end(Id(0xB, 4), []), "chotki.sync_unknown", "chotki.sync_unknown"),
    "second V": (write_end(T, []) * 2, "chotki.sync_unknown", "chotki.sync_unknown"),
    "V of something else": (
        long_record("V", record("T", T.zip()), record("S", b"x")),
        "chotki.packet",
        "chotki.packet",
    ),
    "V with an entry that is none": (
        write_end(T, [block_vector(Id(0xB, 0), record("S"))]),
        "chotki.packet",
        "chotki.packet",
    ),
    "V with a pair that is none": (
        write_end(T, [block_vector(Id(0xB, 0), record("V", BAD_PAIR))]),
        "chotki.pair_length",
        None,
    ),
    "a second H without V": (
        record("H", record("t", b"\x0d"), b"1\x07"),
        "chotki.handshake",
        "chotki.handshake",
    ),
    "an edit of what is unknown": (e(edit(1, SHORT)), None, None),
    "an edit of nothing": (e(b""), None, None),
    "long forms": (
        long_record("E", record("I", b"\x0b\0\0\x10"), long_record("R", b"\x0c\0\0\x10"), edit(1, SHORT)),
        None,
        None,
    ),
    "step back and repeat": (e(edit(1, SHORT)) * 2 + e(edit(1, SHORT), id=Id.make(0xB, 2)), None, None),
    "object without fields": (write_live("O", Id.make(0xB, 9), OBJECT, b""), None, None),
    "empty diff": (d() + write_end(T, [block_vector(Id(0xB, 0), b"")]), None, None),
    "live before V": (d(edit(1, SHORT)) + e(edit(1, SHORT)), None, None),
    "floats in a diff": (
        d(edit(1, record("F", b"0\xfc\x0f")), edit(2, record("F", b"0\x02\x20"))),
        None,
        None,
    ),
}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_comes_behind_a_handshake(name: str) -> None:
    data, code, _ = ROWS[name]
    assert code is None or code in CODES
    assert refused(data) == code


@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_comes_behind_a_handshake_with_compat_go(name: str) -> None:
    data, _, code = ROWS[name]
    assert refused(data, Compat.GO) == code


M, V, S = b"1\x07", record("V"), record("S", TRACE)
HANDSHAKES: dict[str, tuple[bytes, str | None]] = {
    "first packet is a change": (e(edit(1, SHORT)), "chotki.handshake"),
    "first packet is a ping": (record("P", b"0ping"), "chotki.handshake"),
    "first packet is a diff": (d(), "chotki.handshake"),
    "unknown letter comes before": (record("Q", b"0"), "chotki.letter"),
    "without M": (record("H", b"1\x0b", V, S), "chotki.handshake"),
    "without V": (record("H", b"1\x0b", M, S), "chotki.handshake"),
    "without S": (record("H", b"1\x0b", M, V), "chotki.handshake"),
    "S of 9 bytes": (record("H", b"1\x0b", M, V, record("S", TRACE[1:])), "chotki.handshake"),
    "S tiny": (record("H", b"1\x0b", M, V, b"9" + TRACE[1:]), "chotki.handshake"),
    "V of other records": (record("H", b"1\x0b", M, record("V", SHORT), S), "chotki.handshake"),
    "order of V and S": (record("H", b"1\x0b", M, S, V), "chotki.handshake"),
    "mode 8": (record("H", b"1\x0b", b"1\x08", V, S), "chotki.mode"),
    "mode of two bytes": (record("H", b"1\x0b", b"2\x07\x01", V, S), "chotki.mode"),
    "mode of nine bytes": (record("H", b"1\x0b", b"9\x07" + bytes(7) + b"\1", V, S), "chotki.mode"),
    "no T": (record("H", M + V + S), "chotki.handshake"),
    "a record that is cut": (record("H", b"1\x0b", M, V, S, b"x\x09"), "chotki.packet"),
    "pair of an entry": (
        record("H", b"1\x0b", M, record("V", record("V", BAD_PAIR)), S),
        "chotki.pair_length",
    ),
    "our source": (record("H", b"1\x0a", M, V, S), "chotki.source_collision"),
    "our source with an offset": (record("H", b"2\x0a\x09", M, V, S), "chotki.source_collision"),
    "mode comes before source": (record("H", b"1\x0a", b"1\x08", V, S), "chotki.mode"),
    "mode 0 is empty": (record("H", b"1\x0b", b"0", V, S), None),
    "short forms": (record("H", record("T", b"\x0b"), record("M", b"\x07"), V, S), None),
    "long form": (long_record("H", b"1\x0b", M, long_record("V"), S), None),
    "records behind S": (record("H", b"1\x0b", M, V, S, record("X"), record("Q", b"any")), None),
}


@pytest.mark.parametrize("name", sorted(HANDSHAKES))
def test_what_comes_first(name: str) -> None:
    first, code = HANDSHAKES[name]
    assert refused(b"", first=first) == code


def test_with_compat_go_a_peer_of_our_source_moves_the_counter_or_is_refused() -> None:
    for t, code, counter_after in (
        (Id(0xA, 0x9000), None, 0x9000),
        (Id(0xA, 2), None, 3),
        (Id(0xA, 0x9001), "chotki.own_id", 3),
    ):
        replica = Replica(0xA, compat=Compat.GO)
        replica.open_session(NAME, NOW)
        output = replica.receive(NAME, write_handshake(t, 7, b"", TRACE), NOW)
        assert [event.code for _, event in output.events if isinstance(event, SessionRefused)] == [
            code
        ] * bool(code)
        assert replica.counter == counter_after


def test_what_came_before_a_refusal_stays_and_nothing_after_it_is_looked_at() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    packets = [e(edit(number, SHORT), id=Id.make(0xB, 8 + number)) for number in (1, 2, 3)]
    bad = e(b"f\x01\x01")
    output = replica.receive(NAME, H + packets[0] + packets[1] + bad + packets[2], NOW)
    (event,) = [event for _, event in output.events if isinstance(event, SessionRefused)]
    assert event.record == bad
    assert replica.vector()[0xB] == Id.make(0xB, 10).pro
    assert replica.sessions[NAME].open_syncs == []


def test_own_edits_come_back_move_the_counter_and_are_told_of() -> None:
    replica = Replica(0xA)
    replica.open_session(NAME, NOW)
    output = replica.receive(NAME, H + e(edit(1, SHORT), id=Id.make(0xA, 7)), NOW)
    assert [event.kind for _, event in output.events][-3:-1] == ["own_source", "packet"]
    assert str(replica.commit("C", Id(0, 0), b"", NOW).id) == "a-8"


def test_own_edits_that_come_back_by_a_diff_move_the_counter_too() -> None:
    whole, restored, keeper = Replica(0xA), Replica(0xA), Replica(0xB)
    new_object(whole, 3)
    Wire(whole, keeper).open().run()
    keeper.lose_session(NAME, NOW)
    wire = Wire(restored, keeper).open().run()
    assert "own_source" in wire.kinds(restored)
    assert restored.counter == whole.vector()[0xA]


def test_a_value_that_does_not_parse_can_be_left_out_of_a_diff() -> None:
    replica = Replica(0xA, settings=ChotkiSettings(unreadable_values="quarantine"))
    replica.open_session(NAME, NOW)
    other = replica.open_session("other", NOW).of("other")
    assert other
    replica.receive("other", write_handshake(Id(0xC, 0), 7, b"", TRACE), NOW)
    data = d(edit(1, record("S", b"x")), edit(2, SHORT), edit(3, record("X", b"y")))
    output = replica.receive(NAME, H + data + write_end(T, []), NOW)
    quarantined = [(str(e.id), e.letter, e.code) for _, e in output.events if e.kind == "quarantined"]  # type: ignore[attr-defined]
    assert quarantined == [("b-0-1", "S", "chotki.value"), ("b-0-3", "X", "chotki.field_letter")]
    assert [key for key in replica.store.values() if key[:9] == b"O" + bytes(7) + b"\x0b"] == [
        bytes.fromhex("4f000000000000000b000000000000000253")
    ]
    key = bytes.fromhex("4f000000000000000b000000000000000253")
    assert write_parcel(T, Id(0xB, 0), [(key, SHORT[2:])]) in output.of("other")
    assert refused(d(edit(1, b"12"))) == "chotki.field_letter"


def mutated(rng: random.Random, seed: bytes) -> bytes:
    """A few bytes changed, put in or left out."""
    data = bytearray(seed)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        position = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.6 and position < len(data):
            data[position] = rng.choice((rng.randrange(256), rng.choice(b"0123ERTIDVHfrtisnzemv"), 0))
        elif kind < 0.8:
            data[position:position] = rng.randbytes(rng.randrange(4))
        else:
            del data[position : position + rng.randrange(4)]
    return bytes(data)


def codes_of_mutations(compat: Compat, seed: int, count: int) -> set[str]:
    """The codes with which a replica refuses mutated packets."""
    rng = random.Random(f"mutations {compat} {seed}")
    seeds = [H, *(data for data, _, _ in ROWS.values()), *(first for first, _ in HANDSHAKES.values())]
    seeds += [e(edit(1, counter(0xB, 5))), d(edit(1, counter(0xB, 5))), write_end(T, [block_vector(T, b"")])]
    codes = set()
    replica = Replica(0xA, compat=compat)
    for number in range(count):
        session = replica.sessions.get(NAME)
        if session is None or session.closed:
            replica.open_session(NAME, NOW)
            replica.receive(NAME, H, NOW)
        data = mutated(rng, rng.choice(seeds)) + rng.choice((b"", H))
        output = replica.receive(NAME, data, NOW)
        codes |= {event.code for _, event in output.events if isinstance(event, SessionRefused)}
        if number % 1_000 == 0:
            replica = Replica(0xA, compat=compat)
    return codes


@pytest.mark.parametrize("compat", list(Compat))
def test_no_mutation_of_any_packet_causes_anything_undocumented(compat: Compat) -> None:
    codes = codes_of_mutations(compat, 0, 60_000)
    assert codes <= CODES
    assert {"chotki.packet", "chotki.letter", "chotki.record", "chotki.reference", "chotki.offset"} <= codes
    assert compat is Compat.GO or {"chotki.value", "chotki.pair_length", "chotki.field_letter"} <= codes


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("compat", list(Compat))
def test_no_mutation_of_millions_causes_anything_undocumented(compat: Compat, seed: int) -> None:
    assert codes_of_mutations(compat, seed, 1_000_000) <= CODES


def test_parse_of_any_bytes_gives_a_packet_or_one_of_three_errors() -> None:
    rng = random.Random(1)
    for _ in range(60_000):
        data = bytes([rng.choice(b"hdvbpcoeyHDQq0"), rng.randrange(12)]) + rng.randbytes(rng.randrange(14))
        try:
            assert parse(data).letter in LETTERS
        except ChotkiError as error:
            assert error.code in ("chotki.packet", "chotki.letter", "chotki.pair_length")
