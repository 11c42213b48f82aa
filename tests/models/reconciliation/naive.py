"""A second side, written straight from rbsr.md 1.2 to 1.4 and 1.6 over plain lists, for the machine to match.

Messages are the JSON objects of docs/conform.md. Nothing here is fast, bounded or checked, and nothing is
shared with the machine. `Naive.receive` is one message's way through the published pipeline: decode, collate,
process, consolidate, check whether it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

Message = dict[str, Any]
Combine = Callable[[Sequence[Any]], Any]
"""From the items of a range in sorted order to its fingerprint."""


def joined(items: Sequence[Any]) -> Any:
    """Strings one after the other, "0" for none; the string "0" adds nothing."""
    return "".join("" if item == "0" else item for item in items) if items else "0"


def members(items: Sequence[Any], x: Any, y: Any) -> list[Any]:
    """The items of [x, y) in sorted order."""
    if x == y:
        return list(items)
    if x < y:
        return [item for item in items if x <= item < y]
    return [item for item in items if item >= x or item < y]


def run(items: Sequence[Any], upper: Any, can_respond: bool) -> list[Message]:
    """Items as a payload series."""
    messages: list[Message] = [{"type": "payload", "payload": item} for item in items]
    messages[-1]["end"] = {"canRespond": can_respond, "upperBound": upper}
    return messages


class Naive:
    """One side of a conversation."""

    def __init__(
        self, items: Sequence[Any], threshold: int, division: int, combine: Combine, rule: str = "upstream"
    ) -> None:
        self.items = sorted(set(items))
        self.inserted: list[Any] = []
        self.done = False
        self.threshold = threshold
        self.division = division
        self.rule = rule
        self.combine = combine
        self.lower: Any = None
        self.collated: list[Any] = []
        self.done_upto: list[Any] = []
        self.silent_upto: list[Any] = []
        self.quiet = True

    def start(self) -> list[Message]:
        """The opening."""
        if not self.items:
            return [{"type": "emptySet", "canRespond": True}]
        lowest = self.items[0]
        chunks = self.chunks(self.items)
        if self.rule == "even" and len(self.items) <= self.threshold:
            chunks = [self.items]
        messages: list[Message] = [{"type": "lowerBound", "value": lowest}]
        for index, chunk in enumerate(chunks):
            upper = chunks[index + 1][0] if index + 1 < len(chunks) else lowest
            if len(chunk) <= self.threshold and self.rule == "upstream":
                messages += run(chunk, upper, True)
            else:
                messages.append(self.fingerprint(chunk[0], upper))
        return [*messages, {"type": "terminal"}]

    def chunks(self, items: list[Any]) -> list[list[Any]]:
        """How the rule cuts items in the order that they have on the ring."""
        if self.rule == "upstream":
            size = (len(items) + self.division - 1) // self.division
            return [items[at : at + size] for at in range(0, len(items), size)]
        cuts = sorted({at * len(items) // self.division for at in range(self.division + 1)})
        if len(items) < self.division:
            cuts = list(range(len(items) + 1))
        return [items[x:y] for x, y in pairwise(cuts)]

    def fingerprint(self, x: Any, y: Any) -> Message:
        """The own fingerprint of [x, y) as a message."""
        return {
            "type": "fingerprint",
            "fingerprint": self.combine(members(self.items, x, y)),
            "upperBound": y,
        }

    def receive(self, message: Message) -> list[Message]:
        """What is said in answer to one message."""
        if self.done:
            return []
        sent: list[Message] = []
        for answer in self.process(message):
            sent += self.consolidate(answer)
        for consolidated in sent:
            self.check(consolidated)
        return sent

    def process(self, message: Message) -> list[Message]:
        """The answers to a message, before adjacent dones become one."""
        kind, x = message["type"], self.lower
        if kind == "emptySet":
            return self.process_empty_set(message)
        if kind == "lowerBound":
            self.lower = message["value"]
            return [message]
        if kind == "terminal":
            return [message]
        if kind == "payload":
            self.collated.append(message["payload"])
            if "end" not in message:
                return []
            received, self.collated = self.collated, []
            y = self.lower = message["end"]["upperBound"]
            self.inserted += received
            self.items = sorted({*self.items, *received})
            if not message["end"]["canRespond"]:
                return [{"type": "done", "upperBound": y}]
            others = [item for item in members(self.items, x, y) if item not in received]
            return run(others, y, False) if others else [{"type": "silent", "upperBound": y}]
        y = self.lower = message["upperBound"]
        own = members(self.items, x, y)
        if kind == "done":
            return [message]
        if kind == "emptyPayload":
            return run(own, y, False) if own else [{"type": "silent", "upperBound": y}]
        assert kind == "fingerprint"
        return self.process_fingerprint(message["fingerprint"], x, y, own)

    def process_empty_set(self, message: Message) -> list[Message]:
        self.done = self.done or not message["canRespond"]
        if not self.items:
            return [{"type": "emptySet", "canRespond": False}]
        lowest = self.items[0]
        return [
            {"type": "lowerBound", "value": lowest},
            *run(self.items, lowest, False),
            {"type": "terminal"},
        ]

    def process_fingerprint(self, theirs: Any, x: Any, y: Any, own: list[Any]) -> list[Message]:
        if self.combine(own) == theirs:
            return [{"type": "done", "upperBound": y}]
        if not own:
            return [{"type": "emptyPayload", "upperBound": y}]
        chunk = (len(own) + self.division - 1) // self.division
        if len(own) <= self.threshold or (self.rule == "upstream" and chunk <= self.threshold):
            return run(own, y, True)
        if x >= y:
            own = [item for item in own if item >= x] + [item for item in own if item < x]
        chunks = self.chunks(own)
        uppers = [*(chunk[0] for chunk in chunks[1:]), y]
        return [self.fingerprint(chunk[0], upper) for chunk, upper in zip(chunks, uppers, strict=True)]

    def consolidate(self, answer: Message) -> list[Message]:
        """Hold dones back. A range answered by nothing is only named where another one follows."""
        if answer["type"] == "done":
            self.done_upto = self.silent_upto = [answer["upperBound"]]
            return []
        if answer["type"] == "silent":
            self.silent_upto = [answer["upperBound"]]
            if self.rule == "even":
                self.done_upto = self.silent_upto
            return []
        upper_bounds = self.done_upto if answer["type"] == "terminal" else self.silent_upto
        self.done_upto = self.silent_upto = []
        return [*({"type": "done", "upperBound": upper} for upper in upper_bounds), answer]

    def check(self, message: Message) -> None:
        """Done is who says a terminal with no question since the one before."""
        asks = message["type"] in ("fingerprint", "emptyPayload")
        if asks or (message["type"] == "payload" and message.get("end", {}).get("canRespond")):
            self.quiet = False
        if message["type"] == "terminal":
            self.done = self.done or self.quiet
            self.quiet = True
