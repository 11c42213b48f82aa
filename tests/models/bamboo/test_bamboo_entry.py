""""""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import bamboo, varu64
from culm_models.bamboo import decode_entry, errors, needs_skiplink
from culm_models.bamboo import hashes as yasmf
from culm_models.bamboo.entry import max_entry_size, measure_entry, read_place, sign_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.fork_proof import is_fork_proof
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from tests.support.p2panda import vectors

AUTHOR = KeyPair.generate(b"author")
PAYLOAD = b"payload"

hashes = st.binary(min_size=32, max_size=32).map(lambda digest: yasmf.PREFIX + digest)
numbers = st.integers(1, 400) | st.integers(1, varu64.MAX_VALUE)


def sign(seq_num: int, *, log_id: int = 0, payload: bytes = PAYLOAD, end_of_log: bool = False) -> bytes:
    return bamboo.sign_entry(
        AUTHOR,
        log_id,
        seq_num,
        payload,
        skiplink=yasmf.hash_bytes(b"skip") if bamboo.needs_skiplink(seq_num) else None,
        backlink=yasmf.hash_bytes(b"back") if seq_num > 1 else None,
        end_of_log=end_of_log,
    )


@given(numbers, st.integers(0, varu64.MAX_VALUE), st.binary(max_size=300), st.booleans(), hashes, hashes)
def test_an_entry_survives_the_round_trip(
    seq_num: int, log_id: int, payload: bytes, end_of_log: bool, skiplink: bytes, backlink: bytes
) -> None:
    if skiplink == backlink:
        return
    entry_bytes = bamboo.sign_entry(
        AUTHOR,
        log_id,
        seq_num,
        payload,
        skiplink=skiplink if bamboo.needs_skiplink(seq_num) else None,
        backlink=backlink if seq_num > 1 else None,
        end_of_log=end_of_log,
    )
    entry = bamboo.decode_entry(entry_bytes)
    assert read_place(entry_bytes) == (entry.public_key, entry.log_id, entry.seq_num)
    assert entry == bamboo.Entry(
        AUTHOR.public_key,
        log_id,
        seq_num,
        end_of_log,
        skiplink if bamboo.needs_skiplink(seq_num) else None,
        backlink if seq_num > 1 else None,
        len(payload),
        yasmf.hash_bytes(payload),
        entry_bytes[-64:],
    )
    bamboo.check_signature(entry_bytes, entry)
    bamboo.check_payload(entry, payload)
    assert bamboo.MIN_ENTRY_SIZE <= len(entry_bytes) <= bamboo.MAX_ENTRY_SIZE


def test_entries_are_frozen() -> None:
    entry = bamboo.decode_entry(sign(1))
    assert type(entry) is bamboo.Entry
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.seq_num = 2  # type: ignore[misc]
    assert dataclasses.replace(entry, seq_num=2).seq_num == 2
    assert hash(entry) == hash(dataclasses.replace(entry))


@pytest.mark.parametrize("seq_num", [1, 2, 4, 300, 2**64 - 1])
def test_every_truncation_is_refused(seq_num: int) -> None:
    entry_bytes = sign(seq_num, log_id=2**40, payload=bytes(300))
    for size in range(len(entry_bytes)):
        with pytest.raises(errors.BambooError):
            bamboo.decode_entry(entry_bytes[:size])
    for size in (0, 1, 33, 40, len(entry_bytes) - 1):
        with pytest.raises(errors.TruncatedEntryError):
            bamboo.decode_entry(entry_bytes[:size])
    for tail in (b"\x00", b"\x00\x20", bytes(34), yasmf.PREFIX + bytes(32), bytes(1000)):
        with pytest.raises(errors.EntryTrailingBytesError):
            bamboo.decode_entry(entry_bytes + tail)


def _assemble(
    *,
    tag: bytes = b"\x00",
    log_id: bytes = b"\x00",
    seq_num: bytes = b"\x01",
    links: bytes = b"",
    size: bytes = b"\x05",
    payload_hash: bytes = yasmf.PREFIX + bytes(32),
) -> bytes:
    unsigned = tag + AUTHOR.public_key + log_id + seq_num + links + size + payload_hash
    return unsigned + AUTHOR.sign(unsigned)


LINK = yasmf.hash_bytes(b"one")
OTHER_LINK = yasmf.hash_bytes(b"two")


@pytest.mark.parametrize(
    ("entry_bytes", "error"),
    [
        (_assemble(tag=b"\x02"), errors.EntryTagError),
        (_assemble(tag=b"\xff"), errors.EntryTagError),
        (_assemble(seq_num=b"\x00"), errors.SeqNumError),
        (_assemble(log_id=b"\xf8\x01"), errors.NumberFormError),
        (_assemble(seq_num=b"\xf9\x00\xff"), errors.NumberFormError),
        (_assemble(size=b"\xf8\x05"), errors.NumberFormError),
        (_assemble(links=LINK), errors.BacklinkUnexpectedError),
        (_assemble(links=LINK + OTHER_LINK), errors.BacklinkUnexpectedError),
        (_assemble(seq_num=b"\x02"), errors.BacklinkMissingError),
        (_assemble(seq_num=b"\x04"), errors.BacklinkMissingError),
        (_assemble(seq_num=b"\x04", links=LINK), errors.SkiplinkMissingError),
        (_assemble(seq_num=b"\x04", links=LINK + LINK), errors.SkiplinkIdenticalError),
        (_assemble(seq_num=b"\x05", links=LINK + OTHER_LINK), errors.SkiplinkUnexpectedError),
        (_assemble(payload_hash=b"\x01\x20" + bytes(32)), errors.HashFormError),
        (_assemble(payload_hash=b"\x00\x40" + bytes(64)), errors.HashFormError),
        (_assemble(seq_num=b"\x02", links=b"\x00\x21" + bytes(32)), errors.HashFormError),
        (_assemble(seq_num=b"\x04", links=LINK + b"\x20" + bytes(33)), errors.HashFormError),
    ],
)
def test_what_is_wrong_with_an_entry_is_named(entry_bytes: bytes, error: type[CulmError]) -> None:
    with pytest.raises(errors.BambooError) as caught:
        bamboo.decode_entry(entry_bytes)
    assert type(caught.value) is error


@pytest.mark.parametrize("seq_num", [1, 2, 13])
def test_a_changed_bit_anywhere_is_refused(seq_num: int) -> None:
    entry_bytes = sign(seq_num)
    for position in range(len(entry_bytes)):
        changed = bytearray(entry_bytes)
        changed[position] ^= 1 << (position % 8)
        with pytest.raises(errors.BambooError):
            bamboo.check_signature(bytes(changed), bamboo.decode_entry(bytes(changed)))


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_errors_of_ours(data: bytes) -> None:
    with pytest.raises(CulmError):
        bamboo.decode_entry(data)


@given(st.sampled_from([sign(1), sign(2), sign(4), sign(300)]), st.data())
def test_damaged_entries_raise_nothing_but_errors_of_ours(entry_bytes: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(entry_bytes)))
    length = data.draw(st.integers(0, 40))
    damaged = entry_bytes[:start] + data.draw(st.binary(max_size=40)) + entry_bytes[start + length :]
    try:
        entry = bamboo.decode_entry(damaged)
        bamboo.check_signature(damaged, entry)
    except CulmError:
        return
    assert damaged == entry_bytes


@pytest.mark.parametrize(
    ("payload", "error"),
    [(PAYLOAD + b"!", errors.PayloadSizeError), (PAYLOAD[::-1], errors.PayloadHashError)],
)
def test_another_payload_is_refused(payload: bytes, error: type[CulmError]) -> None:
    with pytest.raises(error):
        bamboo.check_payload(bamboo.decode_entry(sign(1)), payload)


@pytest.mark.parametrize(
    ("seq_num", "skiplink", "backlink", "error"),
    [
        (0, None, None, errors.SeqNumError),
        (1, None, LINK, errors.BacklinkUnexpectedError),
        (1, LINK, None, errors.BacklinkUnexpectedError),
        (2, None, None, errors.BacklinkMissingError),
        (4, None, LINK, errors.SkiplinkMissingError),
        (4, LINK, LINK, errors.SkiplinkIdenticalError),
        (5, OTHER_LINK, LINK, errors.SkiplinkUnexpectedError),
        (2, None, bytes(34), errors.HashFormError),
    ],
)
def test_entries_that_a_reader_would_refuse_are_not_signed(
    seq_num: int, skiplink: bytes | None, backlink: bytes | None, error: type[CulmError]
) -> None:
    with pytest.raises(error):
        bamboo.sign_entry(AUTHOR, 0, seq_num, PAYLOAD, skiplink=skiplink, backlink=backlink)


@pytest.mark.parametrize("row", vectors.read("entry-forms.json")["entries"], ids=lambda row: row["name"])
def test_entry_forms_are_judged_as_the_p2panda_library_judges_them(row: dict[str, str | bool]) -> None:
    entry_bytes = bytes.fromhex(str(row["entry"]))
    try:
        bamboo.check_signature(entry_bytes, bamboo.decode_entry(entry_bytes))
    except errors.EntryTagError:
        # The library takes any tag but 1 for a regular entry; Bamboo knows no other tags.
        assert row["name"] in ("tag2", "tag ff")
    except CulmError:
        assert not row["decodes"]
    else:
        assert row["decodes"]


# Entries with either hash: sizes, round trips, measuring, and the other flavour's form refused.


flavours = pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)


def _entry(seq_num: int, flavour: HashFlavour, *, log_id: int = 0) -> bytes:
    return sign_entry(
        AUTHOR,
        log_id,
        seq_num,
        b"payload",
        backlink=flavour.hash(b"back") if seq_num > 1 else None,
        skiplink=flavour.hash(b"skip") if needs_skiplink(seq_num) else None,
        flavour=flavour,
    )


def test_the_published_sizes() -> None:
    assert [len(_entry(seq_num, YAMF)) for seq_num in (1, 2, 8)] == [166, 232, 298]
    assert [len(_entry(seq_num, YASMF)) for seq_num in (1, 2, 8)] == [134, 168, 202]
    assert (max_entry_size(YAMF), max_entry_size(YASMF)) == (322, 226)


@flavours
@given(seq_num=st.integers(1, 2**64 - 1) | st.integers(1, 300), log_id=st.integers(0, 2**64 - 1))
def test_an_entry_is_decoded_and_measured(flavour: HashFlavour, seq_num: int, log_id: int) -> None:
    entry = _entry(seq_num, flavour, log_id=log_id)
    decoded = decode_entry(entry, flavour)
    assert (decoded.seq_num, decoded.log_id) == (seq_num, log_id)
    assert measure_entry(entry + b"more", flavour) == len(entry)
    assert all(measure_entry(entry[:size], flavour) in (None, len(entry)) for size in range(len(entry)))


@flavours
def test_an_entry_of_the_other_flavour_is_refused(flavour: HashFlavour) -> None:
    other = YAMF if flavour is YASMF else YASMF
    for seq_num in (1, 2, 8):
        with pytest.raises(BambooError):
            decode_entry(_entry(seq_num, other), flavour)
    with pytest.raises(BambooError):
        sign_entry(AUTHOR, 0, 2, b"", backlink=other.hash(b"back"), flavour=flavour)


# What proves a fork, and what does not (reference 1.5).


def _proves(first: bytes, second: bytes, flavour: HashFlavour) -> bool:
    both = [(decode_entry(entry, flavour), flavour.hash(entry)) for entry in (first, second)]
    answers = {is_fork_proof(*both[0], *both[1]), is_fork_proof(*both[1], *both[0])}
    assert len(answers) == 1, "the order of the two does not matter"
    return answers.pop()


@flavours
def test_two_entries_of_one_number_fork_a_log(flavour: HashFlavour) -> None:
    entry = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    assert _proves(entry, sign_entry(AUTHOR, 0, 1, b"b", flavour=flavour), flavour)
    assert not _proves(entry, entry, flavour)


@flavours
def test_a_backlink_that_names_another_entry_forks_a_log(flavour: HashFlavour) -> None:
    first = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    right = sign_entry(AUTHOR, 0, 2, b"b", backlink=flavour.hash(first), flavour=flavour)
    wrong = sign_entry(AUTHOR, 0, 2, b"b", backlink=flavour.hash(b"else"), flavour=flavour)
    assert not _proves(first, right, flavour)
    assert _proves(first, wrong, flavour)
    assert _proves(right, wrong, flavour)


@flavours
def test_two_names_for_one_entry_fork_a_log(flavour: HashFlavour) -> None:
    links = [flavour.hash(name) for name in (b"3", b"4", b"other 4")]
    fourth = sign_entry(AUTHOR, 0, 5, b"", backlink=links[1], flavour=flavour)
    eighth = sign_entry(AUTHOR, 0, 8, b"", skiplink=links[2], backlink=links[0], flavour=flavour)
    assert _proves(fourth, eighth, flavour)


@flavours
def test_an_entry_behind_the_end_forks_a_log(flavour: HashFlavour) -> None:
    end = sign_entry(AUTHOR, 0, 1, b"a", end_of_log=True, flavour=flavour)
    later = sign_entry(AUTHOR, 0, 3, b"b", backlink=flavour.hash(b"2"), flavour=flavour)
    assert _proves(end, later, flavour)


@flavours
def test_an_end_beside_an_entry_that_says_the_rest_proves_nothing_before_one_follows(
    flavour: HashFlavour,
) -> None:
    end = sign_entry(AUTHOR, 0, 1, b"a", end_of_log=True, flavour=flavour)
    regular = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    second = sign_entry(AUTHOR, 0, 2, b"b", backlink=flavour.hash(regular), flavour=flavour)
    assert not _proves(end, regular, flavour)
    assert _proves(end, second, flavour)


@flavours
def test_entries_of_two_logs_prove_nothing(flavour: HashFlavour) -> None:
    entry = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    assert not _proves(entry, sign_entry(AUTHOR, 1, 1, b"b", flavour=flavour), flavour)
    other = KeyPair.generate(b"other")
    assert not _proves(entry, sign_entry(other, 0, 1, b"b", flavour=flavour), flavour)
