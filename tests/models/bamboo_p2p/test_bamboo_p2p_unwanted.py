"""What comes and is not kept: payloads that were dropped here, and what its owner ended a request for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from culm_models.bamboo_p2p.peer import GivenEntry
from culm_models.bamboo_p2p.settings import PeerSettings
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancel,
    CancelCode,
    Cancelled,
    RawPayload,
    Skip,
    SkipReason,
    Switch,
)
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import LOG, make_log
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import asking, greedily_asking, metadata, payload

SOUND = payload(1)
WRONG = bytes(len(SOUND))
WHOLE = RawPayload(len(SOUND))


def without_payload_1(made: HandMade, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """The payload of entry 1 was dropped."""
    monkeypatch.setattr(made.store, "is_dropped", lambda log, seq_num: (log, seq_num) == (LOG, 1))
    return made


def test_a_dropped_payload_that_is_brought_is_passed_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(asking(), monkeypatch)
    made.data(metadata(1), RawPayload(1), SOUND[:1])
    assert not made.store.unverified(LOG, 1)
    made.data(RawPayload(len(SOUND) - 1), SOUND[1:], metadata(2), RawPayload(len(payload(2))), payload(2))
    assert made.code is None
    assert not made.store.has_payload(LOG, 1) and made.store.has_payload(LOG, 2)


def test_a_dropped_payload_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(asking(), monkeypatch)
    assert made.data(metadata(1), WHOLE, WRONG).code == "bamboo_p2p.invalid_data"


def test_a_wrong_one_may_be_apologised_for_in_greedy_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    made = without_payload_1(greedily_asking(), monkeypatch)
    made.data(metadata(1), WHOLE, WRONG, Apology(), WHOLE, SOUND, metadata(2))
    assert made.code is None and not made.store.has_payload(LOG, 1)


@pytest.mark.parametrize("middle", [0, 1, len(SOUND)])
def test_what_comes_behind_the_end_of_taking_is_framed_and_thrown_away(middle: int) -> None:
    made = asking().data(metadata(1), WHOLE, SOUND[:middle])
    (request,) = made.end.requests
    made.end.stop_taking(request)
    made.end.cancel(0, CancelCode.RESOURCES)
    made.data_bytes(SOUND[middle:])
    made.data(metadata(2), RawPayload(len(payload(2))), payload(2), Cancelled(0))
    assert made.code is None
    assert made.store.entry(LOG, 2) is None
    assert made.store.has_payload(LOG, 1) is (middle == len(SOUND))
    made.heard_data()
    assert [request.cancel_received for request in made.end.requests] == [False]


@pytest.mark.parametrize("is_mandatory", [True, False])
def test_who_insists_on_a_dropped_payload_is_told_and_who_does_not_gets_the_rest(
    is_mandatory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_log(2)
    given = [GivenEntry(first.entry_bytes), second]
    made = without_payload_1(HandMade(given, PeerSettings(send_window=0)), monkeypatch)
    made.control(proposal(end=2, mandatory=is_mandatory))
    said = made.heard_data()
    codes = [message.code for message in made.heard() if isinstance(message, Cancel)]
    assert codes == [CancelCode.MANDATORY] * is_mandatory
    rest = [Skip(SkipReason.UNAVAILABLE), metadata(2), RawPayload(len(payload(2)))]
    expected = [Switch(0), metadata(1), *([Cancelled(0)] if is_mandatory else rest)]
    assert said == b"".join(map(encode_data, expected)) + (b"" if is_mandatory else payload(2))


@pytest.mark.parametrize("ask", [asking, greedily_asking])
def test_a_payload_whose_beginning_was_forgotten_here_is_no_fault_of_who_sent_it(
    ask: Callable[[], HandMade],
) -> None:
    made = ask().data(metadata(1), RawPayload(1), SOUND[:1])
    made.store.discard_unverified(LOG, 1)
    made.data(RawPayload(len(SOUND) - 1), SOUND[1:])
    assert made.code is None and not made.store.has_payload(LOG, 1) and not made.store.unverified(LOG, 1)
    # It is to come anew.
    assert Cancel(made.end.requests[0].id, CancelCode.RESOURCES) in made.heard()
