import dataclasses

import pytest

from culm_models import bamboo
from culm_models.bamboo import errors
from culm_models.bamboo import hashes as yasmf
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author")


def _log(length: int) -> tuple[list[bamboo.Entry], dict[int, bytes]]:
    entries: list[bamboo.Entry] = []
    hashes: dict[int, bytes] = {}
    for seq_num in range(1, length + 1):
        entry_bytes = bamboo.sign_entry(
            AUTHOR,
            7,
            seq_num,
            b"payload %d" % seq_num,
            skiplink=hashes[bamboo.lipmaa(seq_num)] if bamboo.needs_skiplink(seq_num) else None,
            backlink=hashes.get(seq_num - 1),
        )
        hashes[seq_num] = bamboo.hash_bytes(entry_bytes)
        entries.append(bamboo.decode_entry(entry_bytes))
    return entries, hashes


ENTRIES, HASHES = _log(41)


def test_an_honest_log_passes_in_order() -> None:
    for entry in ENTRIES:
        held = {seq_num: HASHES[seq_num] for seq_num in range(1, entry.seq_num)}
        bamboo.check_links(entry, hash_at=held.get)


@pytest.mark.parametrize("seq_num", [2, 4, 13, 40, 41])
def test_an_entry_that_comes_early_waits_for_the_one_before(seq_num: int) -> None:
    held = {other: HASHES[other] for other in HASHES if other != seq_num - 1}
    with pytest.raises(errors.BacklinkUnknownError):
        bamboo.check_links(ENTRIES[seq_num - 1], hash_at=held.get)


@pytest.mark.parametrize("seq_num", [4, 13, 40])
def test_the_target_of_the_skiplink_must_be_held_and_the_same(seq_num: int) -> None:
    target = bamboo.lipmaa(seq_num)
    entry = ENTRIES[seq_num - 1]
    held = {other: HASHES[other] for other in HASHES if other != target}
    with pytest.raises(errors.SkiplinkUnknownError):
        bamboo.check_links(entry, hash_at=held.get)
    with pytest.raises(errors.SkiplinkMismatchError):
        bamboo.check_links(entry, hash_at={**HASHES, target: yasmf.hash_bytes(b"another")}.get)


@pytest.mark.parametrize("seq_num", [2, 4, 41])
def test_the_backlink_must_name_the_entry_that_is_held(seq_num: int) -> None:
    held = {**HASHES, seq_num - 1: yasmf.hash_bytes(b"another")}
    with pytest.raises(errors.BacklinkMismatchError):
        bamboo.check_links(ENTRIES[seq_num - 1], hash_at=held.get)


def test_nothing_follows_the_end_of_a_log() -> None:
    bamboo.check_links(ENTRIES[8], hash_at=HASHES.get, end_of_log_at=9)
    with pytest.raises(errors.AfterEndOfLogError):
        bamboo.check_links(ENTRIES[9], hash_at=HASHES.get, end_of_log_at=9)


def test_error_codes_are_unique() -> None:
    codes = [
        error.code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.BambooError)
    ]
    assert len(codes) == len(set(codes))
    assert all(code == "bamboo" or code.startswith("bamboo.") for code in codes)


def test_the_first_entry_needs_nothing() -> None:
    first = dataclasses.replace(ENTRIES[0])
    bamboo.check_links(first, hash_at=lambda _: None)
