"""Mode 1 opposite a remote that the test plays: message by message, refusals, and who lacks what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from culm_models.lifts import ADD128, SIPHASH128, XOR64, Lift
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.sessions.session import SessionState
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import (
    Announce,
    EntryMessage,
    Have,
    Item,
    Message,
    Offer,
    SyncDone,
    SyncRequest,
    offer_marker,
)
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.peers import (
    BOTH,
    HIGH,
    LOW,
    NOW,
    codes,
    connect_to,
    kinds,
    make_peer,
    said,
    state_of,
)

LOGS = sorted((make_log(author(f"remote {number}"), 0, 3) for number in range(6)), key=lambda log: log[0].log)
ITEMS: list[Item] = [(*log[0].log, 3) for log in LOGS]
START = (*ITEMS[0][:2], 0)
REQUEST = SyncRequest(0, 1, (SCHEMA,))


def played(logs: Sequence[Any] = LOGS, **settings: Any) -> Peer:
    peer = make_peer(LOW, logs, **settings)
    connect_to(peer, HIGH)
    return peer


def hear(peer: Peer, *messages: Message) -> list[Message]:
    """Say these to the peer; returns what it says, entries and all."""
    peer.receive(HIGH, b"".join(map(codec.encode, messages)), NOW)
    return said(peer, HIGH)


def whole(items: Sequence[Item], lift: Lift = ADD128, salt: bytes = b"") -> list[Message]:
    """An opening of one fingerprint of everything."""
    return [LowerBound(0, START), Fingerprint(0, lift.fingerprint(items, salt), START), Terminal(0)]


def run(items: Sequence[Item], *, can_respond: bool) -> list[Message]:
    """A batch that names these items as everything."""
    named: list[Message] = [Payload(0, item) for item in items[:-1]]
    return [LowerBound(0, START), *named, Payload(0, items[-1], can_respond, START), Terminal(0)]


def entries(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, EntryMessage) for message in messages)


def others(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if not isinstance(message, EntryMessage)]


# Equal, lacking, ahead.


def test_equal_sets_send_nothing_again() -> None:
    assert hear(played(), REQUEST, *whole(ITEMS)) == [
        LowerBound(0, START),
        Done(0, START),
        Terminal(0),
        SyncDone(0, True),
    ]


def test_an_empty_set_at_the_start_is_answered_with_everything() -> None:
    answer = hear(played(), REQUEST, EmptySet(0, True))
    assert entries(answer[:18]) == 18
    assert answer[18:] == [Terminal(0), SyncDone(0, True)]


def test_two_empty_sets_are_equal() -> None:
    assert hear(played(()), REQUEST, EmptySet(0, True)) == [EmptySet(0, False), SyncDone(0, True)]


@pytest.mark.parametrize(
    "last", [(Terminal(0), SyncDone(0, True)), (EmptySet(0, False), SyncDone(0, True)), (SyncDone(0, True),)]
)
def test_who_asks_with_an_empty_set_waits_for_the_end(last: tuple[Message, ...]) -> None:
    peer = played(())
    peer.sync(HIGH, 1, [SCHEMA], NOW)
    assert said(peer, HIGH) == [REQUEST, EmptySet(0, True)]
    log = [EntryMessage(0, entry.entry_bytes, entry.payload_bytes) for entry in LOGS[0]]
    assert hear(peer, *log, *last) == [SyncDone(0, True)]
    assert peer.store.height(*LOGS[0][0].log) == 3
    assert state_of(peer, HIGH) is SessionState.LIVE


def test_entries_go_out_while_reconciliation_still_runs() -> None:
    peer = played(payload_threshold=1, range_division=2)
    first, second = (*ITEMS[0][:2], 0), (*ITEMS[3][:2], 0)
    answer = hear(
        peer,
        REQUEST,
        LowerBound(0, first),
        EmptyPayload(0, second),
        Fingerprint(0, ADD128.fingerprint([]), first),
        Terminal(0),
    )
    assert entries(answer) == 9
    assert any(isinstance(message, Fingerprint) for message in answer)
    assert not any(isinstance(message, SyncDone) for message in answer)


def test_heights_are_compared_and_never_joined() -> None:
    shown = [(*ITEMS[0][:2], 1), (*ITEMS[1][:2], 3), (*ITEMS[2][:2], 9)]
    peer = played()
    answer = hear(peer, REQUEST, *run(shown, can_respond=True))
    named = [message.value for message in answer if isinstance(message, Payload)]
    assert named == [ITEMS[0], *ITEMS[2:]]
    # Two of the log that is shorter there, and the three logs that are not named at all.
    assert entries(answer) == 2 + 3 * 3
    assert peer.store.height(*ITEMS[2][:2]) == 3


def test_a_log_that_is_not_held_is_named_with_number_0() -> None:
    strange = [(bytes(32), 5, 7), (b"\xff" * 32, 0, 1)]
    answer = hear(played(LOGS[:1]), REQUEST, *run([strange[0], ITEMS[0], strange[1]], can_respond=True))
    named = [message.value for message in answer if isinstance(message, Payload)]
    assert named == [(bytes(32), 5, 0), (b"\xff" * 32, 0, 0)]
    assert entries(answer) == 0


def asked(peer: Peer) -> None:
    """The peer begins, and shows all its items to the remote's fingerprint of something else."""
    peer.sync(HIGH, 1, [SCHEMA], NOW)
    (_, opening, *_) = said(peer, HIGH)
    assert opening == LowerBound(0, START)


@pytest.mark.parametrize(
    ("named", "sent"),
    [
        # Silence about a log that was shown says "equal", but only of one that names what it lacks.
        ([(*ITEMS[0][:2], 0)], 3),
        ([(*ITEMS[0][:2], 1), (*ITEMS[1][:2], 0)], 5),
        ([(*ITEMS[0][:2], 2)], 1 + 15),
    ],
)
def test_what_silence_about_a_shown_log_means(named: list[Item], sent: int) -> None:
    peer = played(rule="upstream", payload_threshold=8)
    asked(peer)
    assert entries(hear(peer, *run(named, can_respond=False))) == sent


def test_an_offer_says_what_silence_means() -> None:
    peer = played(rule="upstream", payload_threshold=8)
    offer = Offer(frozenset((0, 1)), frozenset((3,)))
    hear(peer, Announce(1, 1, (*BOTH, offer_marker(offer))))
    asked(peer)
    answer = hear(peer, LowerBound(0, START), Done(0, START), Terminal(0))
    assert entries(answer) == 0 and SyncDone(0, True) in answer


# Refusals and faults.


def test_the_lift_is_the_one_that_the_remotes_fingerprints_name() -> None:
    salt = b"0123456789abcdef"
    for lift, used in ((XOR64, b""), (SIPHASH128, salt)):
        assert SyncDone(0, True) in hear(played(), REQUEST, *whole(ITEMS, lift, used))


@pytest.mark.parametrize(
    ("opening", "code"),
    [
        (whole(ITEMS, XOR64), "p2panda.session.lift"),
        ([LowerBound(0, START), Fingerprint(0, b"\x77" * 9, START)], "p2panda.session.lift"),
        ([LowerBound(0, START), Fingerprint(0, b"", START)], "p2panda.session.lift"),
        ([LowerBound(0, START), Fingerprint(0, b"\x03", START), Terminal(0)], "p2panda.session.lift"),
        (
            [
                LowerBound(0, START),
                Fingerprint(0, ADD128.fingerprint([]), ITEMS[2]),
                Fingerprint(0, SIPHASH128.fingerprint([], bytes(16)), START),
                Terminal(0),
            ],
            "p2panda.session.lift_changed",
        ),
        ([Done(0, START), Terminal(0)], "reconciliation.lower_bound_missing"),
        ([LowerBound(0, START), Payload(0, ITEMS[0]), Terminal(0)], "reconciliation.run_unfinished"),
    ],
)
def test_what_cannot_be_gone_on_with_is_refused(opening: list[Message], code: str) -> None:
    peer = played(lifts=("add128", "siphash128"))
    if not isinstance(opening[-1], Terminal):
        opening = [*opening, Terminal(0)]
    assert hear(peer, REQUEST, *opening) == [SyncDone(0, False)]
    events = peer.take_events()
    assert (kinds(events), codes(events)) == (["session_started", "session_failed"], [code])
    # The link and its other sessions go on.
    assert hear(peer, SyncRequest(0, 0, (SCHEMA,))) == [Have(0, tuple(ITEMS))]


def test_a_batch_before_our_last_one_has_left_is_out_of_turn() -> None:
    peer = played(payload_threshold=1, range_division=2)
    batch = [LowerBound(0, START), Fingerprint(0, ADD128.fingerprint([]), START), Terminal(0)]
    answer = hear(peer, REQUEST, *batch, *batch)
    assert answer[-1] == SyncDone(0, False)
    assert codes(peer.take_events()) == ["p2panda.session.out_of_turn"]


def test_answers_that_nobody_reads_are_bounded() -> None:
    peer = played(payload_threshold=1, range_division=2, max_unread_bytes=100)
    assert hear(peer, REQUEST, *whole([]))[-1] == SyncDone(0, False)
    assert codes(peer.take_events()) == ["p2panda.session.unread"]


def test_what_comes_behind_the_end_is_passed_over() -> None:
    peer = played()
    hear(peer, REQUEST, *whole(ITEMS), SyncDone(0, True))
    peer.take_events()
    for _ in range(5):
        assert hear(peer, LowerBound(0, START), Done(0, START), Terminal(0)) == []
    assert peer.take_events() == []
    assert state_of(peer, HIGH) is SessionState.LIVE


def test_of_a_batch_for_no_session_one_event_is_told() -> None:
    peer = played()
    assert hear(peer, *whole(ITEMS), *whole(ITEMS)) == []
    assert codes(peer.take_events()) == 2 * ["p2panda.session.unknown"]


def test_messages_of_the_other_mode_change_nothing() -> None:
    peer = played()
    assert hear(peer, REQUEST, Have(0, ()), SyncRequest(1, 0, BOTH), *whole(ITEMS)[:-1]) == [
        Have(1, tuple(ITEMS))
    ]
    assert codes(peer.take_events()) == ["p2panda.session.unexpected_message"]
    assert hear(peer, Terminal(0))[-1] == SyncDone(0, True)


@pytest.mark.parametrize("answer", [[SyncDone(0, False)], [LowerBound(0, START), SyncDone(0, False)]])
def test_a_no_while_reconciliation_runs_is_a_refusal(answer: list[Message]) -> None:
    peer = played()
    peer.sync(HIGH, 1, [SCHEMA], NOW)
    said(peer, HIGH)
    assert hear(peer, *answer) == []
    events = peer.take_events()
    assert codes(events) == ["p2panda.session.refused"]
    assert not peer.sessions(HIGH)


def test_a_peer_without_mode_1_refuses_it() -> None:
    peer = played(modes=(0,))
    assert hear(peer, REQUEST, *whole(ITEMS)) == [SyncDone(0, False)]
    assert codes(peer.take_events()) == ["p2panda.session.mode"]
    assert hear(peer, SyncRequest(0, 0, (SCHEMA,))) == [Have(0, tuple(ITEMS))]


# Ignored requests and their openings.


@pytest.mark.parametrize("opening", [whole(ITEMS), [EmptySet(0, True)]])
@pytest.mark.parametrize(
    "request_", [SyncRequest(0, 1, (OTHER_SCHEMA,)), SyncRequest(0, 1, (SCHEMA,)), SyncRequest(0, 1, ())]
)
def test_the_opening_of_an_ignored_request_is_passed_over(
    request_: SyncRequest, opening: list[Message]
) -> None:
    peer = played(schema_ids=[SCHEMA], payload_threshold=1, range_division=2)
    running = hear(peer, REQUEST, *whole([]))
    assert isinstance(running[-1], Terminal)
    peer.take_events()
    assert hear(peer, request_, *opening) == []
    assert len(codes(peer.take_events())) == 1
    # The session of that id is where it was.
    bounds = [message.upper_bound for message in running if isinstance(message, Fingerprint | Payload)]
    answer = hear(
        peer, LowerBound(0, START), *(EmptyPayload(0, bound) for bound in bounds if bound), Terminal(0)
    )
    assert entries(answer) == 18 and SyncDone(0, True) in answer


def test_an_opening_in_flight_is_passed_over_by_the_peer_that_goes_first() -> None:
    peer = make_peer(HIGH, LOGS)
    connect_to(peer, LOW)
    assert peer.sync(LOW, 1, [SCHEMA], NOW) == 0
    ours = said(peer, LOW)
    peer.receive(LOW, b"".join(map(codec.encode, (REQUEST, *whole(ITEMS)))), NOW)
    assert said(peer, LOW) == []
    assert [session.local for session in peer.sessions(LOW)] == [True]
    # The other one takes our request, and answers our opening.
    other = make_peer(LOW, LOGS)
    connect_to(other, HIGH)
    other.sync(HIGH, 1, [SCHEMA], NOW)
    said(other, HIGH)
    other.receive(HIGH, b"".join(map(codec.encode, ours)), NOW)
    peer.receive(LOW, other.take_outgoing(HIGH), NOW)
    assert state_of(peer, LOW) is SessionState.LIVE
