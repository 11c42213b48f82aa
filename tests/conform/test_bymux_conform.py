"""bymux through lines: frames, and one end of a connection (R60)."""

from __future__ import annotations

from typing import Any

import pytest


def test_frames_round_trip_and_an_incomplete_tail_is_left(talk: Any) -> None:
    frames = [
        {"type": "credit", "stream": 1, "amount": 262_144},
        {"type": "write", "stream": 0, "bytes": "616263"},
        {"type": "write", "amount": 7},
        {"type": "ping", "stream": 300},
        {"type": "close"},
    ]
    encoded = talk.ok("bymux.encode", frames=frames)["bytes"]
    assert encoded == "02010004000020000361626330074" + "4012c90"
    for cut in range(0, len(encoded), 2):
        found = talk.ok("bymux.decode", bytes=encoded[:cut])
        assert found["frames"] == frames[: len(found["frames"])]
        assert found["used"] <= cut // 2
    assert talk.ok("bymux.decode", bytes=encoded) == {"frames": frames, "used": len(encoded) // 2}
    wide = "2e" + "0000000000000001" + "00000002" + "6162"
    assert talk.ok("bymux.decode", bytes=wide)["frames"] == [{"type": "write", "stream": 1, "bytes": "6162"}]
    assert talk.code("bymux.decode", bytes="c0") == "bymux.type"


def test_data_waits_for_credit_and_control_does_not(talk: Any) -> None:
    assert talk.ok("bymux.open", name="a", window=10)["send"] == "00010a"
    assert talk.ok("bymux.write", name="a", stream=1, bytes="aabbcc")["send"] == ""
    assert talk.ok("bymux.write", name="a", stream=0, bytes="dd")["send"] == "200001dd"
    answer = talk.ok("bymux.receive", name="a", bytes="000102")
    assert answer == {"send": "200102aabb", "streams": []}
    assert talk.ok("bymux.receive", name="a", bytes="000100")["send"] == "200101cc"


def test_writes_are_of_at_most_16_kib(talk: Any) -> None:
    talk.ok("bymux.open", name="a", window=0)
    sent = talk.ok("bymux.write", name="a", stream=0, bytes="00" * 40_000)["send"]
    frames = talk.ok("bymux.decode", bytes=sent)["frames"]
    assert [len(frame["bytes"]) // 2 for frame in frames] == [16_384, 16_384, 7_232]


def test_credit_is_granted_again_when_it_is_worth_a_frame(talk: Any) -> None:
    talk.ok("bymux.open", name="a", window=4)
    talk.ok("bymux.receive", name="a", bytes="200103616263")
    assert talk.ok("bymux.consumed", name="a", stream=1, amount=3)["send"] == "000103"
    assert talk.code("bymux.consumed", name="a", stream=1, amount=1) == "bymux.consumed"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("e0", "bymux.type"),
        ("300a", "bymux.stream"),
        ("4005", "bymux.stream"),
        ("200105", "bymux.credit"),
        ("8001", "bymux.closed"),
        ("a000", "bymux.closed"),
    ],
)
def test_a_violation_is_told_with_what_came_before(talk: Any, said: str, code: str) -> None:
    talk.ok("bymux.open", name="a", window=4)
    answer = talk.ok("bymux.receive", name="a", bytes="200001dd" + "4001" + said)
    assert answer == {"send": "6001", "streams": [{"stream": 0, "bytes": "dd"}], "dropped": code}
    assert talk.code("bymux.receive", name="a", bytes="") == "conform.machine"
