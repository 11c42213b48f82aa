"""`rbsr.*` opposite a second implementation, message for message where the rule is upstream's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.acceptance import wire
from tests.acceptance.naive import Message, NaiveSide, reconcile
from tests.acceptance.peers import Lines

LETTERS = st.sets(st.sampled_from("abcdefghijklmnopqrstuvwxyz"))
KEYS = [f"{number:02x}" * 32 for number in range(4)]
TRIPLES = st.sets(st.tuples(st.sampled_from(KEYS), st.integers(0, 3), st.integers(1, 4)), max_size=30)
THRESHOLDS = st.integers(1, 8)
DIVISIONS = st.integers(2, 16)
_KINDS = {
    "lowerBound": "lower_bound",
    "emptyPayload": "empty_payload",
    "done": "done",
    "terminal": "terminal",
}
_MOST_BATCHES = 200


def joined(items: list[str]) -> str:
    """The monoid `concat`."""
    return "".join(items) or "0"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def read(message: dict[str, Any]) -> Message:
    """A message of `rbsr.*` as the naive side has it."""
    kind = message["type"]
    if kind == "emptySet":
        return ("empty_set", message["canRespond"])
    if kind == "payload":
        end = message.get("end")
        if end is None:
            return ("payload", _plain(message["payload"]), None, None)
        return ("payload", _plain(message["payload"]), end["canRespond"], _plain(end["upperBound"]))
    if kind == "fingerprint":
        return ("fingerprint", message["fingerprint"], _plain(message["upperBound"]))
    if kind == "lowerBound":
        return ("lower_bound", _plain(message["value"]))
    if kind == "terminal":
        return ("terminal",)
    return (_KINDS[kind], _plain(message["upperBound"]))


def written(message: Message) -> dict[str, Any]:
    """The other way."""
    kind, *rest = message
    if kind == "empty_set":
        return {"type": "emptySet", "canRespond": rest[0]}
    if kind == "payload":
        item, can_respond, upper = rest
        end = {} if upper is None else {"end": {"canRespond": can_respond, "upperBound": upper}}
        return {"type": "payload", "payload": item, **end}
    if kind == "fingerprint":
        return {"type": "fingerprint", "fingerprint": rest[0], "upperBound": rest[1]}
    if kind == "lower_bound":
        return {"type": "lowerBound", "value": rest[0]}
    if kind == "terminal":
        return {"type": "terminal"}
    return {"type": {there: here for here, there in _KINDS.items()}[kind], "upperBound": rest[0]}


class CulmSide:
    """A side behind `rbsr.*`, with the naive one's methods."""

    def __init__(
        self,
        items: Any,
        threshold: int,
        division: int,
        rule: str = "upstream",
        monoid: str = "concat",
        lines: Lines | None = None,
    ) -> None:
        self.lines, self.done = lines or Lines(), False
        self.name = f"side {id(self)}"
        self.lines.ok(
            "rbsr.open",
            name=self.name,
            items=sorted(items),
            monoid=monoid,
            payload_threshold=threshold,
            range_division=division,
            rule=rule,
        )

    def start(self) -> list[Message]:
        return [read(message) for message in self.lines.ok("rbsr.start", name=self.name)["send"]]

    def receive(self, message: Message) -> list[Message]:
        answer = self.lines.ok("rbsr.receive", name=self.name, message=written(message))
        self.done = answer["done"]
        return [read(each) for each in answer["send"]]

    @property
    def state(self) -> dict[str, Any]:
        return self.lines.ok("rbsr.state", name=self.name)

    @property
    def items(self) -> set[Any]:
        return {_plain(item) for item in self.state["items"]}


def converse(left: Any, right: Any) -> list[list[Message]]:
    """Batch after batch; no message may follow once a side is done."""
    batches = [left.start()]
    sides = (left, right)
    while batches[-1]:
        assert len(batches) < _MOST_BATCHES, "no end"
        receiver = sides[len(batches) % 2]
        batches.append([answer for message in batches[-1] for answer in receiver.receive(message)])
    return batches[:-1]


@given(LETTERS, LETTERS, THRESHOLDS, DIVISIONS)
def test_upstream_says_the_same_message_for_message(
    a: set[str], b: set[str], threshold: int, division: int
) -> None:
    # How often two empty sides tell each other so is not worth a rule.
    assume(a or b)

    def naive(items: set[str]) -> NaiveSide:
        return NaiveSide(list(items), joined, threshold, division, implied=True)

    spoken = converse(CulmSide(a, threshold, division), CulmSide(b, threshold, division))
    expected = converse(naive(a), naive(b))
    assert [batch for batch in spoken if batch] == [batch for batch in expected if batch]


@given(LETTERS, LETTERS, *[st.tuples(THRESHOLDS, DIVISIONS, st.sampled_from(["upstream", "even"]))] * 2)
def test_both_end_with_the_union_whatever_their_settings(
    a: set[str], b: set[str], x: tuple[int, int, str], y: tuple[int, int, str]
) -> None:
    left, right = CulmSide(a, *x), CulmSide(b, *y)
    converse(left, right)
    assert left.items == right.items == a | b
    assert left.state["done"] and right.state["done"]


@given(LETTERS, LETTERS, THRESHOLDS, DIVISIONS, st.booleans(), st.booleans())
def test_a_side_converges_with_the_naive_one(
    a: set[str], b: set[str], threshold: int, division: int, first: bool, gaps: bool
) -> None:
    naive = NaiveSide(list(a), joined, 2, 3, gaps=gaps)
    culm = CulmSide(b, threshold, division, "even")
    converse(*((culm, naive) if first else (naive, culm)))
    assert culm.items == set(naive.items) == a | b
    assert culm.state["done"]


@pytest.mark.parametrize("monoid", ["xor64", "add64", "add128"])
@given(a=TRIPLES, b=TRIPLES, rule=st.sampled_from(["upstream", "even"]))
@settings(max_examples=30)
def test_triples_converge_under_every_lift(monoid: str, a: Any, b: Any, rule: str) -> None:
    left, right = (CulmSide(side, 2, 3, rule, monoid) for side in (a, b))
    converse(left, right)
    assert left.items == right.items == a | b


@given(LETTERS, st.sampled_from("abcxyz"), st.sampled_from("abcxyz"))
def test_a_range_wraps_where_its_start_is_not_below_its_end(items: set[str], x: str, y: str) -> None:
    naive, culm = NaiveSide(list(items), joined), CulmSide(items, 2, 2)
    answer = culm.lines.ok("rbsr.range", name=culm.name, x=x, y=y)
    assert answer["items"] == sorted(naive.range(x, y)), "in sorted order, also where it wraps"
    assert answer["size"] == len(naive.range(x, y))
    assert answer["fingerprint"] == naive.range_fingerprint(x, y)


@given(TRIPLES, TRIPLES)
@settings(max_examples=50)
def test_the_fingerprints_of_triples_are_those_of_their_definition(items: Any, bounds: Any) -> None:
    for name in ("xor64", "add64"):
        culm, naive = CulmSide(items, 2, 2, monoid=name), NaiveSide(list(items), wire.LIFTS[name])
        for x in list(bounds)[:3]:
            for y in list(bounds)[:3]:
                answer = culm.lines.ok("rbsr.range", name=culm.name, x=x, y=y)
                assert answer["fingerprint"] == naive.range_fingerprint(x, y)[1:].hex()
                assert [tuple(item) for item in answer["items"]] == sorted(naive.range(x, y))


def test_what_looks_false_is_an_item_like_any_other() -> None:
    # As items, not behind fingerprints: `concat` cannot tell an empty text from none.
    left, right = CulmSide({"", "0", "a"}, 8, 2), CulmSide({"", "b"}, 8, 2)
    converse(left, right)
    assert left.items == right.items == {"", "0", "a", "b"}


def test_received_items_are_told_in_their_order() -> None:
    left, right = CulmSide(set("ab"), 8, 2), CulmSide(set("cd"), 8, 2)
    converse(left, right)
    assert sorted(left.state["inserted"]) == ["c", "d"]
    assert set(right.state["inserted"]) >= {"a", "b"}


@pytest.mark.parametrize("kind", ["terminal", "lowerBound"])
def test_a_side_that_is_done_is_silent(kind: str) -> None:
    left, right = CulmSide(set("abc"), 2, 2), CulmSide(set("bcd"), 2, 2)
    converse(left, right)
    message: Message = ("terminal",) if kind == "terminal" else ("lower_bound", "a")
    for side in (left, right):
        assert side.receive(message) == [] and side.done


SETTINGS = st.tuples(st.integers(1, 4), st.integers(2, 5))


def side(items: set[str], settings: tuple[int, int], *, absorb: bool = True, gaps: bool = False) -> NaiveSide:
    return NaiveSide(list(items), joined, *settings, absorb=absorb, gaps=gaps)


@given(LETTERS, LETTERS, SETTINGS, SETTINGS)
def test_both_end_with_the_union(a: set[str], b: set[str], x: tuple[int, int], y: tuple[int, int]) -> None:
    left, right = side(a, x), side(b, y)
    reconcile(left, right)
    assert left.done and right.done
    assert set(left.items) == set(right.items) == a | b


@given(LETTERS, LETTERS, SETTINGS, SETTINGS)
def test_ranges_called_equal_are_equal(
    a: set[str], b: set[str], x: tuple[int, int], y: tuple[int, int]
) -> None:
    left, right = side(a, x, absorb=False), side(b, y, absorb=False)
    reconcile(left, right)
    for lower, upper in left.equal + right.equal:
        assert left.range(lower, upper) == right.range(lower, upper)


def test_silence_in_place_of_a_done_loses_nothing() -> None:
    left, right = side(set("abcdefgh"), (2, 2), gaps=True), side(set("aceg"), (2, 2), gaps=True)
    reconcile(left, right)
    assert set(left.items) == set(right.items) == set("abcdefgh")
