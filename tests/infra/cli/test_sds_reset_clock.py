"""`culm sds reset-clock`: what a wrong clock has done to a full participant's state is undone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.sds.participants.participant import Participant
from culm_connectors.sds.participants.state import StateFolder
from culm_infra.cli.root import run
from culm_infra.cli.sds.participation import ParticipantFlags
from culm_models.sds.errors import ClockAheadError
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message

HOUR_MS = 3_600_000
Capture = pytest.CaptureFixture[str]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def ann(home: Path, *, ahead_ms: int = 0) -> Iterator[Participant]:
    """A participant of the channel `general` whose clock is ahead."""
    whose = ParticipantFlags(participant="ann", home=home).who("general", hosted=False)
    with StateFolder(whose.folder, durable=False) as folder:
        made = Participant(folder, "general", "spec", "ann", settings=None, now_ms=now_ms(), seed=b"s" * 32)
        made.set_clock(made.now_ms, now_ms() + ahead_ms)
        yield made
        made.commit()


def reset(home: Path, *flags: str) -> int:
    return run(
        ["sds", "reset-clock", "general", "--participant", "ann", "--home", str(home), "--json", *flags]
    )


def printed(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


def test_what_was_sent_with_a_wrong_clock_is_sent_again_as_new(tmp_path: Path, capsys: Capture) -> None:
    with ann(tmp_path) as participant:
        participant.say(b"sound", participant.now_ms, b"0" * 16)
    with ann(tmp_path, ahead_ms=48 * HOUR_MS) as participant:
        step = participant.say(b"from the future", participant.now_ms, b"1" * 16)
        (sent,) = step.output.send
    with ann(tmp_path) as participant, pytest.raises(ClockAheadError):
        participant.say(b"never said", participant.now_ms, b"2" * 16)
    assert reset(tmp_path, "--send-again") == 0
    (row,) = printed(capsys)["withdrawn"]
    assert row["message_id"] == sent.message_id
    with ann(tmp_path) as participant:
        log = participant.status().log
        assert [message_id for _, message_id in log[1:]] == [row["sent_again_as"]]
        assert abs(log[-1][0] - now_ms()) < HOUR_MS
        assert [one.content for one in participant.history()] == [
            b"sound",
            b"from the future",
            b"from the future",
        ]


def test_with_a_clock_that_goes_right_nothing_changes(tmp_path: Path, capsys: Capture) -> None:
    with ann(tmp_path) as participant:
        participant.say(b"sound", participant.now_ms, b"0" * 16)
        before = participant.status().log
    assert reset(tmp_path) == 0
    assert printed(capsys)["withdrawn"] == []
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
    assert [row["sender_id"] for row in printed(capsys)["withdrawn"]] == ["ben"]


def test_who_is_no_full_participant_is_told_so(tmp_path: Path, capsys: Capture) -> None:
    assert reset(tmp_path) != 0
    assert "no full participant" in capsys.readouterr().err
