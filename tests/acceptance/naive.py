"""Range-based set reconciliation the naive way: sorted lists, every range looked at item by item.

A second implementation to put opposite Culm's. Messages are tuples: ("empty_set", can_respond),
("lower_bound", item), ("payload", item, can_respond or None, upper bound or None),
("empty_payload", upper bound), ("done", upper bound), ("fingerprint", value, upper bound), ("terminal",).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

Message = tuple[Any, ...]
_KEEPS_OPEN = ("empty_payload", "fingerprint")


def _itself(item: Any) -> Any:
    return item


@dataclass
class NaiveSide:
    """One side. ``absorb``: what the other side shows joins the own set, as in the published algorithm.

    ``gaps``: say nothing where nothing of one's own is left to say, as range-reconcile 1.0.2 does; else a
    `done`, which the upstream rule leaves out where no other range follows (``implied``).
    """

    items: list[Any]
    fingerprint: Callable[[list[Any]], Any]
    threshold: int = 1
    division: int = 2
    absorb: bool = True
    gaps: bool = False
    implied: bool = False
    bound: Callable[[Any], Any] = _itself
    answer_items: Callable[[list[Any], list[Any]], list[Any]] | None = None
    """What a run that may be answered is answered with, given own items and those of the run."""

    done: bool = False
    said_empty: bool = False
    """Whether it has said that both are empty."""
    shown: list[Any] = field(default_factory=list)
    """What the other side has shown, in order."""
    equal: list[tuple[Any, Any]] = field(default_factory=list)
    """The ranges that were found equal."""
    _lower: Any = None
    _run: list[Any] = field(default_factory=list)
    _held_back: Any = None
    _has_held_back: bool = False
    _implied: Message | None = None
    _open: bool = False
    _asking: list[tuple[Any, Any]] = field(default_factory=list)
    _asked: list[tuple[Any, Any]] = field(default_factory=list)
    _sent_lower: Any = None

    def __post_init__(self) -> None:
        self.items = sorted(set(self.items))

    def range(self, lower: Any, upper: Any) -> list[Any]:
        """The own items of [lower, upper); from ``lower`` on, around the end where it wraps."""
        if lower < upper:
            return [item for item in self.items if lower <= item < upper]
        return [item for item in self.items if item >= lower] + [item for item in self.items if item < upper]

    def range_fingerprint(self, lower: Any, upper: Any) -> Any:
        """Combined in sorted order, the tail of a wrapped range behind its head."""
        return self.fingerprint(sorted(self.range(lower, upper)))

    def start(self) -> list[Message]:
        """The opening."""
        if not self.items:
            return [("empty_set", True)]
        first = self.bound(self.items[0])
        chunks = self._chunks(list(self.items), first, first, self.threshold)
        return self._sending([("lower_bound", first), *chunks, ("terminal",)])

    def receive(self, message: Message) -> list[Message]:
        """The answer to one message; a side that is done says nothing more."""
        if self.done:
            return []
        return self._sending(self._answer(message))

    def _answer(self, message: Message) -> list[Message]:
        kind, *rest = message
        if kind == "empty_set":
            if not rest[0]:
                # range-reconcile is done when it hears this, so it has to come back to whoever said it.
                self.done = True
                return [message] if self.absorb and not self.said_empty else []
            if not self.items:
                self.said_empty, self.done = True, not self.absorb
                return [("empty_set", False)]
            first = self.bound(self.items[0])
            run = self._payload(list(self.items), False, first)
            return [("lower_bound", first), *run, ("terminal",)]
        if kind == "lower_bound":
            (self._lower,) = rest
            return [message]
        if kind == "terminal":
            return [message]
        if kind == "payload":
            item, can_respond, upper = rest
            self.shown.append(item)
            self._run.append(item)
            if upper is None:
                return []
            run, self._run = self._run, []
            lower, self._lower = self._lower, upper
            own = self.range(lower, upper)
            if self.absorb:
                for each in run:
                    if each not in self.items:
                        bisect.insort(self.items, each)
            if not can_respond:
                return [("done", upper)]
            left = (self.answer_items or _differing)(own, run)
            return self._payload(left, False, upper) if left else self._nothing(upper)
        (*_, upper) = rest
        lower, self._lower = self._lower, upper
        own = self.range(lower, upper)
        if kind == "empty_payload":
            return self._payload(own, False, upper) if own else self._nothing(upper)
        if kind == "done":
            self.equal += [asked for asked in self._asked if self._within(asked, lower, upper)]
            return [message]
        assert kind == "fingerprint"
        if self.range_fingerprint(lower, upper) == rest[0]:
            self.equal.append((lower, upper))
            return [("done", upper)]
        return self._split(own, lower, upper)

    def _split(self, own: list[Any], lower: Any, upper: Any) -> list[Message]:
        if not own:
            return [("empty_payload", upper)]
        size = ceil(len(own) / self.division)
        if len(own) <= self.threshold or size <= self.threshold:
            return self._payload(own, True, upper)
        return self._chunks(own, lower, upper, 0)

    def _chunks(self, own: list[Any], lower: Any, upper: Any, threshold: int) -> list[Message]:
        """Fingerprints of chunks; a chunk of at most ``threshold`` items goes as a run."""
        size = ceil(len(own) / self.division)
        answer: list[Message] = []
        for start in range(0, len(own), size):
            chunk = own[start : start + size]
            end = self.bound(own[start + size]) if start + size < len(own) else upper
            if len(chunk) <= threshold:
                answer += self._payload(chunk, True, end)
            else:
                answer.append(("fingerprint", self.range_fingerprint(lower, end), end))
            lower = end
        return answer

    def _payload(self, run: list[Any], can_respond: bool, upper: Any) -> list[Message]:
        # Sorted, also where the range wraps: only for splitting it is taken from its start.
        *inner, last = sorted(run)
        return [
            *(("payload", item, None, None) for item in inner),
            ("payload", last, can_respond, upper),
        ]

    def _nothing(self, upper: Any) -> list[Message]:
        return [] if self.gaps else [("implied" if self.implied else "done", upper)]

    @staticmethod
    def _within(asked: tuple[Any, Any], lower: Any, upper: Any) -> bool:
        """Whether a range that was asked about lies in [lower, upper), going round from ``lower``."""
        ring = sorted({*asked, lower, upper})
        start, end, limit = ((ring.index(bound) - ring.index(lower)) % len(ring) for bound in (*asked, upper))
        return start < (end or len(ring)) <= (limit or len(ring))

    def _sending(self, messages: Iterable[Message]) -> list[Message]:
        """Hold back the last of adjacent `done`s, note what was asked, and see whether this is the end."""
        sent: list[Message] = []
        for message in messages:
            kind = message[0]
            if kind == "implied":
                self._implied = ("done", message[1])
                continue
            if kind != "terminal" and self._implied is not None:
                # What comes behind an implied one makes it count.
                self._held_back, self._has_held_back = self._implied, True
            self._implied = None
            if kind == "done":
                self._held_back, self._has_held_back = message, True
                continue
            if self._has_held_back:
                sent.append(self._held_back)
                self._sent_lower, self._has_held_back = self._held_back[1], False
            sent.append(message)
            if kind == "fingerprint":
                self._asking.append((self._sent_lower, message[2]))
            if kind == "lower_bound":
                self._sent_lower = message[1]
            elif kind in ("fingerprint", "empty_payload") or (kind == "payload" and message[3] is not None):
                self._sent_lower = message[-1]
            if kind in _KEEPS_OPEN or (kind == "payload" and message[2]):
                self._open = True
            if kind == "terminal":
                self.done, self._open = not self._open, False
                # What comes next answers this batch and no earlier one.
                self._asked, self._asking = self._asking, []
        return sent


def _differing(own: list[Any], run: list[Any]) -> list[Any]:
    return [item for item in own if item not in run]


def reconcile(initiator: NaiveSide, responder: NaiveSide, most_batches: int = 200) -> list[list[Message]]:
    """Both to the end; returns the batches, the initiator's opening first."""
    batches = [initiator.start()]
    sides = (initiator, responder)
    while batches[-1]:
        assert len(batches) < most_batches, "no end"
        receiver = sides[len(batches) % 2]
        batches.append([answer for message in batches[-1] for answer in receiver.receive(message)])
    return batches[:-1]
