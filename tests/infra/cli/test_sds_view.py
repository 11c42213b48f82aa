"""A channel as people see it, and a participant whose clock was wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.sds.participants.participant import Participant
from culm_connectors.sds.participants.state import StateFolder
from culm_infra.cli.kit.output import at
from culm_infra.cli.root import run
from culm_infra.cli.sds.lines import (
    ChannelMessage,
    ChannelView,
    content_text,
    event_line,
    message_json,
    message_line,
    state_line,
)
from culm_infra.cli.sds.participation import ParticipantFlags
from culm_models.sds.errors import ClockAheadError
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message
from culm_topics.sds.records import SdsEventKind, SdsEventRecord


def event(
    kind: SdsEventKind,
    message_id: str,
    participant_id: str | None = None,
    content: bytes | None = None,
    **details: Any,
) -> SdsEventRecord:
    return SdsEventRecord(1, kind, participant_id, message_id, 1_763_000_000_000, details, content)


def delivered(message_id: str, lamport: int, **details: Any) -> SdsEventRecord:
    return event("delivered", message_id, None, b"hi", sender_id="ben", lamport_timestamp=lamport, **details)


def taken(view: ChannelView, record: SdsEventRecord) -> ChannelMessage:
    message = view.take(record)
    assert message is not None
    return message


@given(st.lists(st.tuples(st.integers(0, 5), st.text(min_size=1, max_size=2)), unique_by=lambda p: p[1]))
def test_messages_are_in_the_order_of_the_log_and_late_ones_are_marked(
    positions: list[tuple[int, str]],
) -> None:
    view = ChannelView()
    newest: tuple[int, bytes] | None = None
    for lamport, message_id in positions:
        message = taken(view, delivered(message_id, lamport))
        position = (lamport, message_id.encode())
        assert message.inserted == (newest is not None and position < newest)
        newest = position if newest is None else max(newest, position)
    shown = [(m.lamport_timestamp, m.message_id) for m in view.messages()]
    assert shown == sorted(positions, key=lambda position: (position[0], position[1].encode()))


def test_a_sent_message_that_siblings_hear_of_comes_once() -> None:
    view = ChannelView()
    sent = event("sent", "a", "ann", b"hi", lamport_timestamp=1, position=0)
    message = taken(view, sent)
    assert (message.sender_id, message.state, message.content) == ("ann", "unacknowledged", b"hi")
    assert view.take(delivered("a", 1)) is None
    assert len(view.messages()) == 1


def test_states_follow_the_events() -> None:
    view = ChannelView()
    message = taken(view, event("sent", "a", "ann", b"hi", lamport_timestamp=1))
    assert taken(view, event("possibly_acknowledged", "a", "ann", evidence=("ben",))) is message
    assert (message.state, message.evidence) == ("possibly_acknowledged", ("ben",))
    taken(view, event("acknowledged", "a", "ann", evidence=("ben", "cleo"), by="bloom_filter"))
    assert (message.state, message.evidence) == ("acknowledged", ("ben", "cleo"))
    assert view.take(event("gave_up", "unknown", "ann", attempts=10)) is None
    assert view.take(event("sync_sent", "s", "ann", lamport_timestamp=2)) is None


def test_messages_of_others_have_no_state_and_ephemeral_ones_no_place() -> None:
    view = ChannelView()
    assert taken(view, delivered("a", 1)).state is None
    ephemeral = taken(view, event("sent", "e", "ann", b"typing", ephemeral=True))
    assert (ephemeral.state, ephemeral.inserted) == (None, False)
    assert [message.message_id for message in view.messages()] == ["a"]
    assert "ephemeral" in message_line(ephemeral)


def test_what_a_view_keeps_is_bounded() -> None:
    view = ChannelView(limit=3)
    for number in range(9):
        view.take(delivered(f"m{number}", number))
    assert [message.message_id for message in view.messages()] == ["m6", "m7", "m8"]


def test_a_line_shows_place_content_state_and_what_is_odd() -> None:
    view = ChannelView()
    view.take(delivered("z", 9))
    line = message_line(taken(view, delivered("a", 1, position=4, gap=("lost-one", "b", "c", "d"))))
    assert line.startswith("2025-11-13 02:13:20  #4 ")
    for part in ("ben", "hi", "↑ inserted", "⚠ gap: lost-one, b, c and 1 more lost"):
        assert part in line
    message = taken(view, event("sent", "b", "ann", b"hi", lamport_timestamp=10, position=5))
    view.take(event("gave_up", "b", "ann", attempts=10, state="unacknowledged"))
    assert "✗ given up after 10 attempts" in state_line(message, 0)
    assert message_json("general", message)["text"] == "hi"


def test_other_events_are_one_line_with_their_details() -> None:
    line = event_line(event("lost", "gone", "ann", waiting=("x", "y"), token=b"t"))
    assert line.endswith("ann: lost gone  (waiting x, y)")


@pytest.mark.parametrize("text", ["\x1b[2J", "[red]", "x" * 5_000])
def test_what_peers_chose_is_escaped_and_cut(text: str) -> None:
    view = ChannelView()
    hostile = SdsEventRecord(
        1,
        "delivered",
        None,
        text[:900],
        0,
        {"sender_id": text, "gap": (text,), "lamport_timestamp": 1},
        text.encode(),
    )
    message = taken(view, hostile)
    for line in (message_line(message), state_line(message, 0), event_line(hostile)):
        assert len(line) < 800
        assert "\x1b" not in line
        assert "[red]" not in line.replace("\\[red]", "")


def test_content_that_is_no_text_is_hex() -> None:
    assert content_text(b"\xff\x00") == "ff00"
    assert content_text(b"\xff" * 61) == "ff" * 60 + "…"
    assert content_text(b"a" * 121) == "a" * 120 + "…"


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    assert at(2**64 - 1) == f"{2**64 - 1} ms"


HOUR_MS = 3_600_000
Capture = pytest.CaptureFixture[str]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def ann(home: Path, *, ahead_ms: int = 0) -> Iterator[Participant]:
    """A participant of the channel `general` whose clock is ahead."""
    identity = ParticipantFlags(participant="ann", directory=home).identity("general", hosted=False)
    with StateFolder(identity.folder, durable=False) as folder:
        made = Participant(folder, "general", "spec", "ann", settings=None, now_ms=now_ms(), seed=b"s" * 32)
        made.set_clock(made.now_ms, now_ms() + ahead_ms)
        yield made
        made.commit()


def reset(home: Path, *flags: str) -> int:
    return run(
        ["sds", "reset-clock", "general", "--participant", "ann", "--dir", str(home), "--json", *flags]
    )


def printed(capsys: Capture) -> Any:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_was_sent_with_a_wrong_clock_is_sent_again_as_new(tmp_path: Path, capsys: Capture) -> None:
    with ann(tmp_path) as participant:
        participant.send(b"sound", participant.now_ms, b"0" * 16)
    with ann(tmp_path, ahead_ms=48 * HOUR_MS) as participant:
        step = participant.send(b"from the future", participant.now_ms, b"1" * 16)
        (sent,) = step.output.send
    with ann(tmp_path) as participant, pytest.raises(ClockAheadError):
        participant.send(b"never said", participant.now_ms, b"2" * 16)
    assert reset(tmp_path, "--send-again") == 0
    (row,) = printed(capsys)
    assert row["message_id"] == sent.message_id
    with ann(tmp_path) as participant:
        log = participant.status().log
        assert [message_id for _, message_id in log[1:]] == [row["sent_again_as"]]
        assert abs(log[-1][0] - now_ms()) < HOUR_MS
        assert [message.content for message in participant.history()] == [
            b"sound",
            b"from the future",
            b"from the future",
        ]


def test_with_a_clock_that_goes_right_nothing_changes(tmp_path: Path, capsys: Capture) -> None:
    with ann(tmp_path) as participant:
        participant.send(b"sound", participant.now_ms, b"0" * 16)
        before = participant.status().log
    assert reset(tmp_path) == 0
    assert printed(capsys) == []
    with ann(tmp_path) as participant:
        assert participant.status().log == before


def test_a_clock_that_is_behind_withdraws_nothing_of_others(tmp_path: Path, capsys: Capture) -> None:
    later_ms = now_ms() + 48 * HOUR_MS
    wire = encode(Message("ben", "m1", "general", later_ms, (), None, b"hello", ()), "spec")
    with ann(tmp_path, ahead_ms=48 * HOUR_MS) as participant:
        participant.receive(wire, participant.now_ms)
        before = participant.status().log
    assert reset(tmp_path) != 0
    assert "it may be behind" in capsys.readouterr().err
    with ann(tmp_path) as participant:
        assert participant.status().log == before
    assert reset(tmp_path, "--force") == 0
    assert [row["sender_id"] for row in printed(capsys)] == ["ben"]


def test_who_is_no_full_participant_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    assert reset(tmp_path) != 0
    assert "no full participant" in capsys.readouterr().err
