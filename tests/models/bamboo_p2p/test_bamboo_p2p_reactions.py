"""What an end does about each cancel of its requests, and what evidence it takes (3.8, R22 to R26)."""

from __future__ import annotations

import pytest

from culm_models.bamboo.entry import decode_entry, sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import RefusedBefore
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    Cancelled,
    Eagerness,
    Grant,
    Metadata,
    Propose,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, Pair, make_log

ENTRIES = make_log(13)
ENDED = make_log(5, end_of_log=True)


def other_branch(seq_num: int) -> bytes:
    """A signed entry of the log with another payload than its own, and other links."""
    own = decode_entry(ENTRIES[seq_num - 1].entry_bytes, YAMF)
    return sign_entry(
        AUTHOR,
        LOG[1],
        seq_num,
        b"another",
        backlink=YAMF.hash(b"another before") if own.backlink else None,
        skiplink=own.skiplink,
        flavour=YAMF,
    )


def proposing(entry_count: int = 0, start: int = 1, credit: int = 8, **wants: object) -> HandMade:
    """An end that proposed request 0, and said so."""
    made = HandMade(ENTRIES[:entry_count], is_proactive=True)
    made.control(Grant(credit))
    made.end.propose(RequestedRange(*LOG, start, **wants))  # type: ignore[arg-type]
    made.heard()
    return made


def proposals(made: HandMade) -> list[Propose]:
    """The proposals among what the end said."""
    return [message for message in made.heard() if isinstance(message, Propose)]


def free(made: HandMade, request_id: int) -> None:
    """Let all four messages of a request that the end has cancelled go through."""
    made.heard_data()
    if any(request.id == request_id and not request.cancel_received for request in made.end.requests):
        made.control(Cancel(request_id, CancelCode.CONFIRMED))
    made.data(Cancelled(request_id))
    made.heard_data()


@pytest.mark.parametrize("code", [CancelCode.REFUSED, CancelCode.CONFIRMED])
def test_a_refused_proposal_is_not_made_again_in_this_connection(code: CancelCode) -> None:
    made = proposing(end=4)
    made.control(Cancel(0, code))
    assert made.heard() == [Cancel(0, CancelCode.CONFIRMED)]
    with pytest.raises(RefusedBefore):
        made.end.propose(RequestedRange(*LOG, 1, end=4))
    made.end.propose(RequestedRange(*LOG, 1, end=5))
    # A new connection knows nothing of it.
    again = made.peer.connect("later", is_proactive=True, now_ms=0)
    again.receive_control(made.end.take_control()[:0] + bytes.fromhex("0000000004"), 0)
    assert again.propose(RequestedRange(*LOG, 1, end=4)) == 0


def test_short_of_resources_frees_the_least_useful_and_tries_again_when_it_is_freed() -> None:
    made = proposing(end=4)
    made.end.propose(RequestedRange(*LOG, 1, end=9))
    made.end.propose(RequestedRange(*LOG, 1, end=13, mandatory=True))
    made.heard()
    entry = decode_entry(ENTRIES[0].entry_bytes, YAMF)
    made.control(Adjust(0, Eagerness.ALL), Adjust(2, Eagerness.ALL))
    made.data(Switch(0), Metadata(False, None, entry.payload_size, entry.payload_hash, entry.signature))
    made.control(Cancel(4, CancelCode.RESOURCES))
    assert made.heard() == [Cancel(4, CancelCode.CONFIRMED), Cancel(2, CancelCode.RESOURCES)]
    free(made, 4)
    assert not made.heard()
    free(made, 2)
    (again,) = proposals(made)
    assert (again.id, again.start, again.end, again.mandatory) == (6, 1, 13, True)


def test_short_of_resources_without_another_request_waits_until_one_is_freed() -> None:
    made = proposing(end=4)
    made.control(Cancel(0, CancelCode.RESOURCES))
    free(made, 0)
    assert made.heard() == [Cancel(0, CancelCode.CONFIRMED)]
    made.end.propose(RequestedRange(*LOG, 1, end=2))
    made.control(Cancel(2, CancelCode.DONE))
    made.heard()
    free(made, 2)
    assert [again.end for again in proposals(made)] == [4]


def test_two_ends_that_refuse_for_resources_fall_silent() -> None:
    refuses = BambooSettings(policy=Policy(answer=PolicyAnswer.REFUSE, code=CancelCode.RESOURCES))
    pair = Pair(refuses, refuses)
    pair.talk()
    for end in pair.ends:
        end.propose(RequestedRange(*LOG, 1, end=4))
    pair.talk()
    assert not any(end.requests or end.dropped for end in pair.ends)


def test_what_was_mandatory_is_proposed_again_without_it() -> None:
    made = proposing(end=4, mandatory=True, min_size=3)
    made.control(Cancel(0, CancelCode.MANDATORY))
    (again,) = proposals(made)
    assert (again.id, again.end, again.min_size, again.mandatory) == (2, 4, 3, False)
    made.control(Cancel(2, CancelCode.MANDATORY))
    assert not proposals(made)


def test_done_and_confirmed_cancels_lead_to_nothing() -> None:
    made = proposing(end=4)
    made.control(Adjust(0, Eagerness.ALL), Cancel(0, CancelCode.DONE))
    assert made.heard() == [Cancel(0, CancelCode.CONFIRMED)]


def test_the_end_of_a_log_is_asked_for_at_once() -> None:
    made = proposing(start=9, lower=1, eagerness=Eagerness.NOTIFY)
    made.control(Cancel(0, CancelCode.END_OF_LOG, 5))
    (again,) = proposals(made)
    assert (again.start, again.end, again.upper, again.lower) == (5, 5, 5, 1)
    assert again.eagerness is Eagerness.THRESHOLD


def test_the_end_of_a_log_waits_for_credit() -> None:
    made = proposing(start=9, lower=1, credit=1)
    made.control(Cancel(0, CancelCode.END_OF_LOG, 5))
    assert not proposals(made)
    made.control(Grant(1))
    assert [again.start for again in proposals(made)] == [5]


@pytest.mark.parametrize("end", [0, 9, 10, 2**64 - 1])
def test_an_end_of_log_that_is_not_before_the_start_is_bogus(end: int) -> None:
    assert proposing(start=9, lower=1).control(Cancel(0, CancelCode.END_OF_LOG, end)).code == (
        "bamboo_p2p.evidence"
    )


def test_an_end_that_is_learned_later_ends_requests_behind_it() -> None:
    made = HandMade()
    made.control(proposal(0, start=9))
    made.heard()
    made.peer.add(ENDED)
    assert made.heard() == [Cancel(0, CancelCode.END_OF_LOG, 5)]


def test_entries_behind_the_end_of_the_log_are_refused() -> None:
    made = HandMade()
    made.control(proposal(0))
    made.data(Switch(0))
    for new_entry in ENDED:
        entry = decode_entry(new_entry.entry_bytes, YAMF)
        made.data(Metadata(entry.end_of_log, None, entry.payload_size, entry.payload_hash, entry.signature))
        made.data(b"\x08" + bytes((entry.payload_size,)) + (new_entry.payload or b""))
    assert made.code is None
    assert Cancel(0, CancelCode.DONE) in made.heard() or made.end.requests
    made.data(Metadata(False, None, 0, YAMF.hash(b""), bytes(64)))
    assert made.code == "bamboo_p2p.invalid_data"


# 133


def mismatch(entry: bytes) -> Cancel:
    """The cancel that shows that an expected hash is another one."""
    return Cancel(0, CancelCode.HASH_MISMATCH, entries=(entry,))


def test_a_hash_mismatch_keeps_both_entries_as_proof() -> None:
    # Of entry 13's pool, 13 is the lowest that lacks: the hash of entry 4 is expected.
    made = proposing(entry_count=12, start=13)
    made.control(mismatch(other_branch(4)))
    assert made.code is None
    assert made.store.fork_proof(LOG) == (ENTRIES[3].entry_bytes, other_branch(4))
    made.control(proposal(1))
    refusals = [message for message in made.heard() if isinstance(message, Cancel) and message.id == 1]
    assert [refusal.code for refusal in refusals] == [CancelCode.FORKED]


def test_a_hash_mismatch_at_an_offset_speaks_of_the_start() -> None:
    made = proposing(entry_count=3, start=3, end=3, offset=1)
    assert made.control(mismatch(other_branch(3))).code is None
    assert made.store.fork_proof(LOG) is not None


@pytest.mark.parametrize(
    "entry",
    [ENTRIES[3].entry_bytes, other_branch(5), other_branch(4)[:-1] + b"\x00"],
    ids=["the expected one", "another entry", "a wrong signature"],
)
def test_a_hash_mismatch_that_shows_none_is_bogus(entry: bytes) -> None:
    assert proposing(entry_count=12, start=13).control(mismatch(entry)).code == "bamboo_p2p.evidence"


def test_a_hash_mismatch_is_told_with_our_own_entry() -> None:
    made = HandMade(ENTRIES)
    made.control(proposal(0, 13, lower=13, expected_hash=YAMF.hash(b"else")))
    (refusal,) = made.heard()[1:]
    assert refusal == Cancel(0, CancelCode.HASH_MISMATCH, entries=(ENTRIES[3].entry_bytes,))
    made.control(proposal(2, 3, offset=0, expected_hash=YAMF.hash(b"else")))
    assert made.heard() == [Cancel(2, CancelCode.HASH_MISMATCH, entries=(ENTRIES[2].entry_bytes,))]


def test_a_responder_that_holds_the_link_alone_refuses() -> None:
    made = HandMade([ENTRIES[12]], BambooSettings(policy=Policy(direction=Direction.PUSH)))
    made.control(proposal(0, 13, lower=13, expected_hash=YAMF.hash(b"else")))
    assert made.heard()[-1] == Cancel(0, CancelCode.REFUSED)


# 135


def test_a_fork_found_in_a_request_is_told_and_ends_all_of_its_log() -> None:
    made = HandMade(ENTRIES[:4])
    made.control(proposal(0), proposal(2, 30))
    made.heard()
    forked = decode_entry(other_branch(1), YAMF)
    made.data(Switch(0), Metadata(False, None, forked.payload_size, forked.payload_hash, forked.signature))
    proof = (ENTRIES[0].entry_bytes, other_branch(1))
    assert made.code is None
    assert made.heard() == [Cancel(number, CancelCode.FORKED, entries=proof) for number in (0, 2)]
    assert made.store.fork_proof(LOG) == proof
    # What is still on its way is read, and thrown away.
    made.data(b"\x08\x03abc", Cancelled(0))
    assert made.code is None


def test_one_entry_signed_twice_is_no_fork() -> None:
    made = proposing(entry_count=4)
    twice = (ENTRIES[3].entry_bytes, ENTRIES[3].entry_bytes)
    assert made.control(Cancel(0, CancelCode.FORKED, entries=twice)).code == "bamboo_p2p.evidence"


def test_a_fork_that_is_given_ends_the_requests_of_its_log() -> None:
    made = HandMade(ENTRIES[:4])
    made.control(proposal(0))
    made.heard()
    assert made.peer.add([NewEntry(other_branch(2))]) == [LOG]
    assert [message.code for message in made.heard() if isinstance(message, Cancel)] == [CancelCode.FORKED]


def test_an_entry_whose_lipmaalink_leads_to_another_branch_is_a_fork() -> None:
    made = HandMade([ENTRIES[0], NewEntry(other_branch(4))])
    assert made.peer.add([ENTRIES[12]]) == [LOG]
    assert made.store.fork_proof(LOG) == (other_branch(4), ENTRIES[12].entry_bytes)
    assert made.store.entry(LOG, 13) is None


# R35, R36


@pytest.mark.parametrize(
    "asked",
    [
        proposal(0, 13, lower=13, expected_hash=YAMF.hash(b"")),
        proposal(0, 2, offset=0, expected_hash=YAMF.hash(b"")),
        proposal(0, 1, end=2, payload_only=True),
        proposal(0, 1, payload_only=True),
        proposal(0, 1, sparse=True),
    ],
    ids=["lower pool", "offset", "payloads", "payloads of an open range", "sparse and open"],
)
def test_what_cannot_be_served_is_refused(asked: Propose) -> None:
    made = HandMade()
    made.control(asked)
    assert made.heard()[-1] == Cancel(0, CancelCode.REFUSED)
    assert made.heard_data() == b"\x20\x00"


def test_an_offset_beyond_the_payload_is_refused() -> None:
    made = HandMade(ENTRIES)
    size = len(ENTRIES[2].payload or b"")
    expected = YAMF.hash(ENTRIES[2].entry_bytes)
    made.control(proposal(0, 3, offset=size + 1, expected_hash=expected, end=3))
    assert made.heard()[-1] == Cancel(0, CancelCode.REFUSED)
    made.control(proposal(2, 3, offset=size, expected_hash=expected, end=3))
    assert isinstance(made.heard()[0], Adjust)
    assert made.heard_data().startswith(b"\x20\x00\x00\x02\x08\x00")
