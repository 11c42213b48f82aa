"""What proves a fork, and what does not (reference 1.5)."""

import pytest

from culm_models.bamboo import decode_entry
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo.proofs import is_fork_proof
from culm_models.keys import KeyPair

AUTHOR = KeyPair.generate(b"author")
flavours = pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)


def _proves(one: bytes, other: bytes, flavour: HashFlavour) -> bool:
    both = [(decode_entry(entry, flavour), flavour.hash(entry)) for entry in (one, other)]
    answers = {is_fork_proof(*both[0], *both[1]), is_fork_proof(*both[1], *both[0])}
    assert len(answers) == 1, "the order of the two does not matter"
    return answers.pop()


@flavours
def test_two_entries_of_one_number_fork_a_log(flavour: HashFlavour) -> None:
    one = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    assert _proves(one, sign_entry(AUTHOR, 0, 1, b"b", flavour=flavour), flavour)
    assert not _proves(one, one, flavour)


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
    one = sign_entry(AUTHOR, 0, 1, b"a", flavour=flavour)
    assert not _proves(one, sign_entry(AUTHOR, 1, 1, b"b", flavour=flavour), flavour)
    other = KeyPair.generate(b"other")
    assert not _proves(one, sign_entry(other, 0, 1, b"b", flavour=flavour), flavour)
