"""The sender of diffs: parcels, parts of long diffs, the field filter, Go's quirks (reference 4.1)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import read_handshake
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.packets.parcels import Parcel, read_end, read_parcel
from culm_models.chotki.rdx import parse_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import MemoryStore
from tests.models.chotki.wire import NAME, NOW, Wire, counter, edit, letters, new_object, text, values

BLOCK = 1 << 28


def parcels(records: Iterable[bytes]) -> list[Parcel]:
    """The D's among records, read."""
    return [read_parcel(record) for record in records if record[:1] == b"D"]


def keys(sent: Iterable[Parcel]) -> list[bytes]:
    return [key for parcel in sent for key, _ in parcel.fields]


def synced(a: Replica, b: Replica, pieces: int = 0) -> Wire:
    """Both after a session; former ones are forgotten."""
    for replica in (a, b):
        if NAME in replica.sessions:
            replica.lose_session(NAME, NOW)
    return Wire(a, b, pieces).open().run()


def of_many_blocks(settings: ChotkiSettings, compat: Compat = Compat.DEFAULT) -> Replica:
    """A replica with objects in four blocks of its own."""
    replica = Replica(0xA, settings=settings, compat=compat)
    of_class = replica.commit("C", Id(0, 0), b"", NOW).id
    for number in range(4):
        replica.raise_counter(number * BLOCK + 0x5000)
        for _ in range(3):
            replica.commit("O", of_class, text("S", "x" * 50) + counter(0xA, 1), NOW)
    return replica


def test_the_first_sync_brings_everything_and_the_next_nothing() -> None:
    a, b = Replica(0xA), Replica(0xB)
    new_object(a, 5)
    wire = synced(a, b)
    assert values(a) == values(b)
    assert (wire.letters(a), wire.letters(b)) == ("HDV", "HDV")
    again = synced(a, b)
    assert (again.letters(a), again.letters(b)) == ("HV", "HV")
    assert len(again.sent[id(a)]) + len(again.sent[id(b)]) < 150


def test_a_vector_entry_of_zero_that_the_peer_lacks_is_ahead() -> None:
    a = Replica(0xA)
    store = MemoryStore(
        {**a.store.values(), bytes.fromhex("56000000000000000d000000000fffffff56"): b"v\x01\x0d"}
    )
    a = Replica(0xA, store)
    sent = parcels(synced(a, Replica(0xB)).records(a))
    assert [parcel.block.src for parcel in sent] == [0xA, 0xD]


@pytest.mark.parametrize("max_bytes", [60, 100, 200])
@pytest.mark.parametrize("compat", list(Compat))
def test_a_parcel_ends_with_the_field_that_exceeds_its_bound(max_bytes: int, compat: Compat) -> None:
    whole = of_many_blocks(ChotkiSettings.for_compat(compat), compat)
    cut = of_many_blocks(ChotkiSettings(max_parcel_bytes=max_bytes, sync_cut_bytes=None), compat)
    expected = parcels(synced(whole, Replica(0xB, compat=compat)).records(whole))
    wire = synced(cut, Replica(0xB, compat=compat))
    sent = parcels(wire.records(cut))
    assert keys(sent) == keys(expected)
    assert len(sent) > len(expected)
    sizes = [len(record) for record in wire.records(cut) if record[:1] == b"D"]
    for parcel, after, size in zip(sent, sent[1:], sizes, strict=False):
        assert parcel.t == after.t
        if parcel.block == after.block:
            assert size > max_bytes
    assert all(size - 70 <= max_bytes for size in sizes), "one field above the bound and no more"
    ends = read_end(parse(wire.records(cut)[-1]))
    assert [block for block, _ in ends] == [parcel.block for parcel in sent], "a block for each D"
    assert values(wire.a) == values(wire.b)


def test_a_large_field_makes_no_parcel_larger_than_a_record_may_be() -> None:
    a = of_many_blocks(ChotkiSettings(max_record_bytes=300, sync_cut_bytes=None))
    of_class = a.commit("C", Id(0, 0), b"", NOW).id
    for size in (100, 220, 230, 10):
        a.commit("O", of_class, text("S", "y" * size), NOW)
    b = Replica(0xB, settings=ChotkiSettings(max_record_bytes=300))
    wire = synced(a, b)
    assert values(a) == values(b)
    assert max(map(len, wire.records(a))) <= 300


def test_a_long_diff_goes_in_parts_that_claim_nothing_of_later_ones() -> None:
    a = of_many_blocks(ChotkiSettings(sync_cut_bytes=100))
    wire = synced(a, Replica(0xB))
    assert wire.letters(a) == "H" + "HDV" * 4
    handshakes = [read_handshake(parse(record)) for record in wire.records(a) if record[:1] == b"h"]
    first, *parts = handshakes
    assert first.features == 1 and not any(part.features for part in parts)
    assert {(part.t, part.mode, part.trace) for part in handshakes} == {(first.t, first.mode, first.trace)}
    assert [0xA in parse_vector(part.vector) for part in parts] == [False, False, False, True]
    assert parts[-1].vector == first.vector
    assert values(wire.a) == values(wire.b)


def test_a_diff_that_makes_one_part_is_not_cut() -> None:
    size = sum(
        len(value) for key, value in of_many_blocks(ChotkiSettings()).store.values().items() if key[8] == 0xA
    )
    for cut in (size, 10 * size):
        a = of_many_blocks(ChotkiSettings(sync_cut_bytes=cut))
        assert synced(a, Replica(0xB)).letters(a) == "HDDDDV"
    go = of_many_blocks(ChotkiSettings(sync_cut_bytes=1), Compat.GO)
    assert letters(synced(go, Replica(0xB)).records(go)).count("H") == 1


def test_a_connection_lost_in_a_long_diff_keeps_the_parts_that_were_through() -> None:
    stream = synced(*(a := of_many_blocks(ChotkiSettings(sync_cut_bytes=100)), Replica(0xB))).records(a)
    assert letters(stream) == "H" + "HDV" * 4
    for kept in range(1, len(stream)):
        b = Replica(0xB)
        b.open_session(NAME, NOW)
        b.receive(NAME, b"".join(stream[:kept]), NOW)
        b.lose_session(NAME, NOW)
        through = letters(stream[:kept]).count("V")
        stored = {key for key in b.store.values() if key[:1] == b"O" and key[8] == 0xA}
        assert len({key[9:14] for key in stored}) >= through
        assert (0xA in b.vector()) == (through == 4), "nothing is claimed before the last part"
        a.lose_session(NAME, NOW)
        synced(a, b)
        assert {key: value for key, value in values(a).items() if values(b).get(key) != value} == {}


def test_a_one_shot_session_waits_for_the_last_part() -> None:
    a, b = of_many_blocks(ChotkiSettings(sync_cut_bytes=100)), Replica(0xB)
    wire = Wire(a, b, 16).open(mode_a=3, mode_b=3).run()
    assert wire.letters(b).startswith("HDV")
    assert values(a) == values(b)
    assert wire.session(b)._syncs.peer_diff_is_in
    byes = [record for replica in (a, b) for record in wire.records(replica) if record[:1] == b"b"]
    assert byes and all(bye.endswith(b"done") for bye in byes)


def many_counters(count: int = 40) -> tuple[Replica, Replica, list[Id]]:
    """Two replicas that hold the same objects with counters, the first made them."""
    a, b = Replica(0xA), Replica(0xB)
    objects = new_object(a, count)
    synced(a, b)
    return a, b, objects


def test_one_edit_among_many_counters_costs_one_field_towards_culm_and_all_towards_go() -> None:
    a, b, objects = many_counters()
    for replica in (a, b):
        replica.lose_session(NAME, NOW)
    b.commit("E", objects[7], edit(2, counter(0xB, 9)), NOW)
    wire = synced(a, b)
    assert [key[17] for key in keys(parcels(wire.records(b)))] == [ord("N")]
    assert values(a) == values(b)
    b.lose_session(NAME, NOW)
    b.commit("E", objects[7], edit(2, counter(0xB, 10)), NOW)
    go = Replica(0xA, MemoryStore(a.store.values()), compat=Compat.GO)
    sent = keys(parcels(synced(go, b).records(b)))
    assert sum(key[17] == ord("N") for key in sent) == len(objects)
    assert values(b) == values(go)


def test_a_field_of_which_not_everything_is_known_goes_out() -> None:
    a, b, objects = many_counters()
    for replica in (a, b):
        replica.lose_session(NAME, NOW)
    reopened = Replica(0xB, MemoryStore(b.store.values()))
    reopened.commit("E", objects[7], edit(2, counter(0xB, 9)), NOW)
    sent = keys(parcels(synced(reopened, a).records(reopened)))
    assert sum(key[17] == ord("N") for key in sent) == len(objects)


def test_what_came_by_diff_is_left_out_for_those_who_hold_its_whole_block() -> None:
    a, b, objects = many_counters()
    c = Replica(0xC)
    synced(b, c)
    for replica in (a, b, c):
        if NAME in replica.sessions:
            replica.lose_session(NAME, NOW)
    c.commit("E", objects[3], edit(2, counter(0xC, 4)), NOW)
    sent = keys(parcels(synced(c, b).records(c)))
    assert [(key[8], key[17]) for key in sent if key[17] != ord("V")] == [(0xA, ord("N"))]
    assert values(b) == values(c)
    synced(b, a)
    assert {key: value for key, value in values(a).items() if values(b)[key] != value} == {}


def test_quirk_a_of_go_sends_the_first_object_of_the_next_block_twice() -> None:
    for compat, count in ((Compat.GO, 2), (Compat.DEFAULT, 1)):
        a = Replica(0xA, compat=compat)
        of_class = a.commit("C", Id(0, 0), b"", NOW).id
        a.raise_counter(BLOCK - 0x2000)
        for _ in range(2):
            made = a.commit("O", of_class, counter(0xA, 1), NOW)
        assert made.id.pro == BLOCK
        wire = synced(a, Replica(0xB, compat=compat))
        assert (
            keys(parcels(wire.records(a))).count(bytes.fromhex("4f000000000000000a00000000100000004f"))
            == count
        )
        if compat is Compat.GO:
            assert bytes.fromhex("6604000000106f040a000010") in wire.records(a)[1]
        assert values(wire.a) == values(wire.b)


def test_quirk_b_of_go_sends_a_parcel_for_the_next_block_although_nothing_is_due() -> None:
    for compat, blocks in ((Compat.GO, [0, BLOCK]), (Compat.DEFAULT, [0])):
        a, b = Replica(0xA, compat=compat), Replica(0xB, compat=compat)
        first = new_object(a)[0]
        a.raise_counter(BLOCK)
        new_object(a)
        synced(a, b)
        for replica in (a, b):
            replica.lose_session(NAME, NOW)
        c = Replica(0xC, MemoryStore({**a.store.values()}), compat=compat)
        c.commit("E", first, edit(1, text("S", "two", rev=1)), NOW)
        wire = synced(c, b)
        sent = parcels(wire.records(c))
        assert [parcel.block.pro for parcel in sent if parcel.block.src == 0xA] == blocks
        if compat is Compat.GO:
            second = next(parcel for parcel in sent if parcel.block == Id(0xA, BLOCK))
            assert {chr(key[17]) for key, _ in second.fields} == {"C", "N"}
        assert values(b) == values(c)
