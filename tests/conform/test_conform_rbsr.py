"""Set reconciliation through `culm conform`: recorded conversations message for message, ranges, refusals."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.reconciliation import conversations

WORDS = list("abcdefg")
KEY = "ab" * 32


def opened(talk: Any, name: str, items: list[Any], monoid: str = "concat", **options: Any) -> None:
    defaults = {"payload_threshold": 1, "range_division": 2, "rule": "upstream"}
    talk.ok("rbsr.open", name=name, items=items, monoid=monoid, **{**defaults, **options})


def play(talk: Any, conversation: dict[str, Any], name: str) -> None:
    """One side's part, opposite the recorded messages of the other."""
    side = conversation[name]
    given_back = {key: side[key] for key in ("items", "payload_threshold", "range_division")}
    talk.ok("rbsr.open", name=name, monoid=conversation["monoid"], rule="upstream", **given_back)
    batches = conversation["batches"]
    if name == "a":
        assert talk.ok("rbsr.start", name=name)["send"] == batches[0][0]
    for number in range(1 if name == "b" else 2, len(batches), 2):
        before = [message for group in batches[number - 1] for message in group]
        for message, sent in zip(before, batches[number], strict=True):
            answer = talk.ok("rbsr.receive", name=name, message=message)
            assert answer["send"] == sent
    state = talk.ok("rbsr.state", name=name)
    assert state == {"items": side["final"], "inserted": side["inserted"], "done": True}
    talk.ok("rbsr.close", name=name)


@pytest.mark.parametrize("file", ["range-reconcile.jsonl", "naive.jsonl"])
def test_recorded_conversations_message_for_message(talk: Any, file: str) -> None:
    for conversation in conversations.read(file):
        play(talk, conversation, "a")
        play(talk, conversation, "b")


@pytest.mark.parametrize(
    "rules", [("upstream", "upstream"), ("even", "upstream"), (None, "even"), ("even", None)]
)
def test_sides_with_different_rules_meet(talk: Any, rules: tuple[str | None, str | None]) -> None:
    twos, threes = ([f"{n:03}" for n in range(0, 300, step)] for step in (2, 3))
    opened(talk, "a", twos, rule=rules[0], range_division=3)
    opened(talk, "b", threes, rule=rules[1], payload_threshold=4)
    turns = count()
    batch = talk.ok("rbsr.start", name="a")["send"]
    while batch:
        name = "ba"[next(turns) % 2]
        batch = [
            sent for message in batch for sent in talk.ok("rbsr.receive", name=name, message=message)["send"]
        ]
    states = [talk.ok("rbsr.state", name=name) for name in "ab"]
    assert states[0]["items"] == states[1]["items"] == sorted({*twos, *threes})
    assert states[0]["done"] and states[1]["done"]


@pytest.mark.parametrize(
    ("x", "y", "items"),
    [
        ("b", "e", "bcd"),
        ("bb", "e", "cd"),
        ("", "c", "ab"),
        ("e", "c", "abefg"),
        ("ee", "cc", "abcfg"),
        ("c", "c", "abcdefg"),
        ("m", "a", ""),
        ("m", "b", "a"),
        ("g", "a", "g"),
        ("h", "z", ""),
    ],
)
def test_ranges_plain_and_wrapped(talk: Any, x: str, y: str, items: str) -> None:
    opened(talk, "a", WORDS)
    assert talk.ok("rbsr.range", name="a", x=x, y=y) == {
        "fingerprint": items or "0",
        "size": len(items),
        "items": list(items),
    }


@pytest.mark.parametrize(
    ("monoid", "fingerprint", "neutral"),
    [
        # The bytes hashed are 83 78 40 (the 64 digits) 03 19 01 2c.
        ("xor64", "aa2808c1172db78d", "0" * 16),
        ("add64", "626bb5f1c7eadb70", "0" * 16),
    ],
)
def test_lifts(talk: Any, monoid: str, fingerprint: str, neutral: str) -> None:
    item = [KEY, 3, 300]
    opened(talk, "a", [item, [KEY, 3, 4]], monoid)
    found = talk.ok("rbsr.range", name="a", x=item, y=[KEY, 4, 0])
    assert found == {"fingerprint": fingerprint, "size": 1, "items": [item]}
    assert talk.ok("rbsr.range", name="a", x=[KEY, 9, 0], y=[KEY, 10, 0])["fingerprint"] == neutral


@pytest.mark.parametrize(("monoid", "size"), [("add128", 32), ("siphash128", 32)])
def test_other_lifts(talk: Any, monoid: str, size: int) -> None:
    opened(talk, "a", [[KEY, 3, 300], [KEY, 4, 0]], monoid)
    everything = talk.ok("rbsr.range", name="a", x=[KEY, 0, 0], y=[KEY, 0, 0])
    assert len(everything["fingerprint"]) == size and everything["size"] == 2


@pytest.mark.parametrize("rule", ["upstream", "even"])
@pytest.mark.parametrize("only", [[""], ["0"], ["", "0"]])
def test_falsy_strings_are_found(talk: Any, rule: str, only: list[str]) -> None:
    opened(talk, "a", [*only, "1", "2", "3"], rule=rule)
    opened(talk, "b", ["2"], rule=rule)
    batch, turns = talk.ok("rbsr.start", name="b")["send"], count()
    while batch:
        name = "ab"[next(turns) % 2]
        batch = [
            sent for message in batch for sent in talk.ok("rbsr.receive", name=name, message=message)["send"]
        ]
    assert talk.ok("rbsr.state", name="b")["items"] == sorted([*only, "1", "2", "3"])


def test_triples_are_ordered_by_number(talk: Any) -> None:
    items = [[KEY, 10, 1], [KEY, 9, 1], [KEY, 9, 10], ["00" * 32, 11, 0], [KEY, 9, 2]]
    opened(talk, "a", items, "xor64")
    shown = talk.ok("rbsr.state", name="a")["items"]
    assert shown == [["00" * 32, 11, 0], [KEY, 9, 1], [KEY, 9, 2], [KEY, 9, 10], [KEY, 10, 1]]


def test_a_done_side_is_silent(talk: Any) -> None:
    opened(talk, "a", WORDS)
    opened(talk, "b", WORDS)
    for message in talk.ok("rbsr.start", name="a")["send"]:
        talk.ok("rbsr.receive", name="b", message=message)
    late: list[dict[str, Any]] = [
        {"type": "lowerBound", "value": "a"},
        {"type": "done", "upperBound": "a"},
        {"type": "terminal"},
        {"type": "fingerprint", "fingerprint": "x", "upperBound": "a"},
        {"type": "emptySet", "canRespond": True},
    ]
    for message in late * 3:
        assert talk.ok("rbsr.receive", name="b", message=message) == {"send": [], "done": True}


def test_after_an_error_nothing_is_said(talk: Any) -> None:
    opened(talk, "a", WORDS)
    for _ in range(2):
        message = {"type": "done", "upperBound": "a"}
        assert talk.code("rbsr.receive", name="a", message=message) == "reconciliation.lower_bound_missing"
    code = talk.code("rbsr.receive", name="a", message={"type": "lowerBound", "value": "a"})
    assert code == "reconciliation.lower_bound_missing"


@pytest.mark.parametrize(
    "options",
    [
        {"monoid": "sum"},
        {"rule": "odd"},
        {"payload_threshold": 0},
        {"range_division": 1},
        {"items": [1]},
        {"items": [[KEY, 0, 0]]},
        {"monoid": "xor64", "items": ["a"]},
        {"monoid": "xor64", "items": [[KEY, 0]]},
        {"monoid": "siphash128", "items": [], "salt": "00"},
    ],
)
def test_what_cannot_be_opened(talk: Any, options: dict[str, Any]) -> None:
    request = {"items": [], "monoid": "concat", "payload_threshold": 1, "range_division": 2, **options}
    assert talk.code("rbsr.open", name="a", **request) == "conform.argument"


def test_names(talk: Any) -> None:
    request = {"items": [], "monoid": "concat", "payload_threshold": 1, "range_division": 2}
    talk.ok("rbsr.open", name="a", **request)
    assert talk.code("rbsr.open", name="a", **request) == "conform.machine"
    assert talk.code("rbsr.start", name="b") == "conform.machine"
    talk.ok("rbsr.start", name="a")
    assert talk.code("rbsr.start", name="a") == "conform.argument"
    talk.ok("close", name="a")
    assert talk.code("rbsr.state", name="a") == "conform.machine"


TEXTS = st.sampled_from(["", "0", "a", "b", "c", "dd", "z"])
ENDS = st.fixed_dictionaries({"canRespond": st.booleans(), "upperBound": TEXTS})
MESSAGES = st.one_of(
    st.builds(lambda flag: {"type": "emptySet", "canRespond": flag}, st.booleans()),
    st.builds(lambda text: {"type": "lowerBound", "value": text}, TEXTS),
    st.builds(lambda text, end: {"type": "payload", "payload": text, "end": end}, TEXTS, st.none() | ENDS),
    st.builds(
        lambda kind, text: {"type": kind, "upperBound": text},
        st.sampled_from(["emptyPayload", "done"]),
        TEXTS,
    ),
    st.builds(lambda one, two: {"type": "fingerprint", "fingerprint": one, "upperBound": two}, TEXTS, TEXTS),
    st.just({"type": "terminal"}),
    st.dictionaries(
        st.sampled_from(["type", "payload", "end", "upperBound"]),
        st.none() | st.integers() | TEXTS,
        max_size=3,
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(TEXTS, max_size=6), st.lists(MESSAGES, max_size=12), st.booleans())
def test_any_messages_are_answered(talk: Any, items: list[str], messages: list[Any], start: bool) -> None:
    opened(talk, "a", items)
    if start:
        talk.ok("rbsr.start", name="a")
    for message in messages:
        answer = talk.answer("rbsr.receive", {"name": "a", "message": message})
        assert answer.get("error", {}).get("code") != "conform.defect", answer
    talk.ok("rbsr.close", name="a")
