"""Data that overtakes control, numbers used again, and proposals that lose (R7 to R11, R15, R38 to R41)."""

from __future__ import annotations

import pytest

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import Parked, Unanswered
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import PAUSE_MS, BambooSettings, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Adjust,
    Cancel,
    CancelCode,
    Cancelled,
    Eagerness,
    Grant,
    Metadata,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, make_log

ENTRIES = make_log(9)
REFUSED, CONFIRMED = CancelCode.REFUSED, CancelCode.CONFIRMED


def metadata(seq_num: int) -> Metadata:
    """The metadata of an entry whose links are left out."""
    entry = decode_entry(ENTRIES[seq_num - 1].entry_bytes, YAMF)
    return Metadata(entry.end_of_log, None, entry.payload_size, entry.payload_hash, entry.signature)


def proposing() -> HandMade:
    """A proactive end that proposed request 0, for entries 5 and on."""
    made = HandMade(is_proactive=True)
    made.control(Grant(8))
    made.end.propose(RequestedRange(*LOG, 5, lower=1))
    made.heard()
    return made


def lost() -> HandMade:
    """That end, after the other's proposal 1 lost to it: it starts later, where the ranges overlap."""
    made = proposing().control(proposal(1, 6))
    assert not made.heard()
    return made


def test_data_waits_for_the_confirmation_that_it_overtook() -> None:
    made = HandMade(is_proactive=True)
    made.control(Grant(1))
    made.end.propose(RequestedRange(*LOG, 1))
    made.data(Switch(0), metadata(1))
    assert made.end.data_waits
    assert not made.store.entries(LOG)
    made.control(Adjust(0, Eagerness.ALL))
    assert not made.end.data_waits
    assert made.store.entries(LOG) == [1]


def test_data_that_overtook_a_refusal_is_a_violation() -> None:
    made = proposing().data(Switch(0))
    assert made.control(Cancel(0, REFUSED)).code == "bamboo_p2p.current"


def test_data_for_a_proposal_that_lost_is_a_violation() -> None:
    made = proposing().data(Switch(0))
    assert made.control(proposal(1, 4)).code == "bamboo_p2p.current"


def test_each_wait_has_its_own_time() -> None:
    made = proposing()
    made.end.propose(RequestedRange(*LOG, 1, lower=1, end=2))
    made.data_bytes(encode_data(Switch(0)) + encode_data(Switch(2)), now_ms=0)
    made.control_bytes(encode_control(Adjust(0, Eagerness.ALL)), now_ms=PAUSE_MS - 1)
    made.end.tick(PAUSE_MS + 1)
    assert made.code is None
    made.end.tick(2 * PAUSE_MS)
    assert made.code == "bamboo_p2p.limit"


def test_the_end_of_data_may_overtake_the_cancel_and_even_the_proposal() -> None:
    made = HandMade(ENTRIES).data(Cancelled(0))
    assert made.end.data_waits
    made.control(proposal(0))
    assert not made.end.data_waits
    made.control(Cancel(0, REFUSED))
    assert made.code is None
    made.heard_data()
    assert not made.end.requests


def test_a_confirmation_counts_after_an_own_cancel() -> None:
    made = HandMade(is_proactive=True).control(Grant(1))
    made.end.propose(RequestedRange(*LOG, 1))
    made.end.cancel(0, REFUSED)
    made.control(Adjust(0, Eagerness.ALL), Cancel(0, CONFIRMED)).data(Switch(0), metadata(1), Cancelled(0))
    made.heard_data()
    assert made.code is None
    assert not made.end.requests


# Numbers used again (R10).


def used_again() -> HandMade:
    """An end that has everything of request 0 but its last data message, and a new proposal 0."""
    made = HandMade(ENTRIES, BambooSettings(credit=2))
    made.control(proposal(0), Cancel(0, REFUSED))
    made.heard_data()
    made.heard()
    return made.control(proposal(0, end=4))


def test_a_number_used_again_is_answered_when_its_former_use_is_over() -> None:
    made = used_again()
    assert made.code is None
    assert not made.heard()
    with pytest.raises(Parked):
        made.end.adjust(Adjust(0, Eagerness.ALL))
    with pytest.raises(Parked):
        made.end.cancel(0, REFUSED)
    with pytest.raises(Unanswered):
        made.end.propose(RequestedRange(*LOG, 3, end=3))
    made.data(Cancelled(0))
    assert [type(message) for message in made.heard()] == [Grant, Adjust]
    assert made.heard_data()


def test_data_until_the_last_message_is_of_the_former_use() -> None:
    made = used_again().data(Switch(0), Cancelled(0), Switch(0))
    assert made.code is None
    assert made.end.granted == 1


def test_a_parked_proposal_may_be_adjusted_and_cancelled() -> None:
    made = used_again().control(Adjust(0, Eagerness.NOTIFY), Cancel(0, REFUSED))
    assert not made.heard()
    made.data(Cancelled(0))
    assert made.heard() == [Grant(1), Cancel(0, CONFIRMED)]
    made.data(Cancelled(0))
    made.heard_data()
    assert made.code is None
    assert not made.end.requests
    assert made.end.granted == 2


def test_a_number_is_in_use_until_three_of_the_four_messages_are_through() -> None:
    made = HandMade(ENTRIES).control(proposal(0), Cancel(0, REFUSED))
    # Its own last data message has not gone out yet.
    assert made.control(proposal(0)).code == "bamboo_p2p.id"


# Proposals that lose (R38 to R41).


def test_a_lost_proposal_gives_its_credit_back() -> None:
    made = proposing()
    granted = made.end.granted
    made.control(proposal(1, 6))
    assert made.end.granted == granted
    credit = made.end.credit
    made.control(proposal(3, 4))
    assert made.end.credit == credit + 1
    assert [request.id for request in made.end.requests] == [3]


def test_messages_about_a_lost_proposal_are_ignored() -> None:
    made = lost().control(Adjust(1, min_size=3), Cancel(1, REFUSED)).data(Cancelled(1))
    assert made.code is None
    assert not made.heard()


def test_a_second_cancel_of_a_lost_proposal_is_a_violation() -> None:
    made = lost().control(Cancel(1, REFUSED))
    assert made.control(Cancel(1, REFUSED)).code == "bamboo_p2p.inactive"


def test_the_last_data_of_a_lost_proposal_waits_for_its_cancel() -> None:
    made = lost().data(Cancelled(1))
    assert made.end.data_waits
    made.control(Cancel(1, REFUSED))
    assert not made.end.data_waits


def test_the_first_word_about_the_winner_ends_the_patience() -> None:
    made = lost().control(Adjust(0, Eagerness.ALL))
    assert made.control(Adjust(1, min_size=3)).code == "bamboo_p2p.inactive"


def test_the_last_data_of_a_cancelled_lost_proposal_is_expected_after_that() -> None:
    made = lost().control(Cancel(1, REFUSED), Adjust(0, Eagerness.ALL)).data(Cancelled(1))
    assert made.code is None
    assert not made.end.data_waits


def test_a_lost_number_that_was_cancelled_is_parked_when_it_is_used_again() -> None:
    made = lost().control(Cancel(1, REFUSED), proposal(1, 1, end=2))
    assert not made.heard()
    made.data(Cancelled(1))
    assert [message.id for message in made.heard() if isinstance(message, Adjust)] == [1]


def test_a_number_used_again_may_lose_while_its_former_use_is_not_over() -> None:
    made = HandMade(is_proactive=True).control(Grant(8), proposal(1, 1, end=2), Cancel(1, REFUSED))
    made.heard_data()
    made.end.propose(RequestedRange(*LOG, 5, lower=1))
    made.control(proposal(1, 6), Adjust(1, min_size=3), Cancel(1, REFUSED))
    assert made.code is None
    assert [request.id for request in made.end.requests] == [1, 0]
    # The older of the two ends first.
    made.data(Cancelled(1))
    assert [request.id for request in made.end.requests] == [0]
    made.data(Cancelled(1))
    assert made.code is None
    assert not made.end.data_waits


def test_more_lost_proposals_than_there_was_credit_for_are_a_violation() -> None:
    made = HandMade(settings=BambooSettings(credit=2), is_proactive=True).control(Grant(1))
    made.end.propose(RequestedRange(*LOG, 5, lower=1))
    for number in (1, 3):
        assert made.control(proposal(number, 6)).code is None
    assert made.control(proposal(5, 6)).code == "bamboo_p2p.credit"


def test_an_own_proposal_that_was_cancelled_can_still_lose_and_owes_its_last_data() -> None:
    made = proposing()
    made.end.cancel(0, REFUSED)
    made.control(proposal(1, 4))
    assert made.heard_data().startswith(encode_data(Cancelled(0)))
    assert [request.id for request in made.end.requests] == [1]


def test_what_waits_for_an_answer_keeps_overlapping_proposals_back() -> None:
    made = HandMade(settings=BambooSettings(policy=Policy(answer=PolicyAnswer.WAIT)))
    made.control(Grant(4), proposal(0, 1, end=4))
    with pytest.raises(Unanswered):
        made.end.propose(RequestedRange(*LOG, 4, lower=1))
    made.end.propose(RequestedRange(*LOG, 5, lower=1))
