"""A plain peer of the specification "replication", written from its text: nothing of Culm is in it.

It answers requests of mode 1 (and of mode 0), or asks itself, holds one session at a time, and keeps a list
of everything that the other side did against the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance import material, wire
from tests.acceptance.material import Holding, LogName
from tests.acceptance.naive import NaiveSide
from tests.acceptance.wire import Array, Item
from tests.support.p2panda.logs import SCHEMA

BY_CODE: dict[int, Callable[[Iterable[Item]], bytes]] = {
    code: wire.LIFTS[name] for code, name in enumerate(("xor64", "add64", "add128"), start=1)
}
ENDLESS = 1 << 40


def start_of_log(item: Item) -> Item:
    """A bound that parts no log."""
    return (item[0], item[1], 0)


def no_lift(_items: object) -> object:
    """The fingerprint of a peer that knows no lift: equal to nothing."""
    return object()


@dataclass
class Talk:
    """One session as this side sees it."""

    session_id: int
    schema_ids: tuple[str, ...]
    mode: int
    local: bool
    ours: Holding
    side: NaiveSide
    fresh: bool = True
    shown: Holding = field(default_factory=dict)
    sent: Holding = field(default_factory=dict)
    asked: set[LogName] = field(default_factory=set)
    run: list[LogName] = field(default_factory=list)
    our_done: bool | None = None
    their_done: bool | None = None


@dataclass
class Stranger:
    """``absence``: say of a shown log that one holds nothing of it, and take silence for equality.

    ``literal``: resend everything that was not mentioned, equal ranges too. ``gaps``: see `NaiveSide`.
    ``empty_set``: answer one with entries alone, or with all items and a `Terminal` before them.
    ``lift`` None: send no fingerprints and believe none.
    """

    held: Holding
    schema_ids: tuple[str, ...] = (SCHEMA,)
    threshold: int = 2
    division: int = 3
    lift: str | None = None
    absence: bool = False
    literal: bool = False
    gaps: bool = False
    whole_bounds: bool = False
    live: bool = False
    modes: tuple[int, ...] = (0, 1)
    empty_set: str = "items"

    talk: Talk | None = None
    faults: list[str] = field(default_factory=list)
    repeated: int = 0
    heard: list[Array] = field(default_factory=list)
    _rest: bytes = b""
    _timestamp: int = 0

    def announce(self) -> bytes:
        """Our announcement."""
        self._timestamp += 1
        return wire.encode([wire.ANNOUNCE, 1, self._timestamp, list(self.schema_ids)])

    def request(self, session_id: int = 0, mode: int = 1, schema_ids: Sequence[str] = (SCHEMA,)) -> bytes:
        """A request, and in mode 1 the opening behind it."""
        self._begin(session_id, mode, tuple(schema_ids), local=True)
        assert self.talk is not None
        arrays: list[Array] = [[wire.SYNC_REQUEST, session_id, mode, list(schema_ids)]]
        if mode == 1:
            self.talk.fresh = False
            arrays += self._arrays(self.talk.side.start())
        return wire.encode(*arrays)

    def _begin(self, session_id: int, mode: int, schema_ids: tuple[str, ...], *, local: bool) -> None:
        ours = material.about(self.held, schema_ids)
        knows_lift = self.lift is not None
        side = NaiveSide(
            list(material.items(ours)),
            wire.LIFTS[self.lift] if self.lift is not None else no_lift,
            self.threshold if knows_lift else ENDLESS,
            self.division,
            absorb=False,
            gaps=self.gaps,
        )
        if not self.whole_bounds:
            side.bound = start_of_log
        if self.absence:
            side.answer_items = self._with_absent
        self.talk = Talk(session_id, schema_ids, mode, local, ours, side)

    def _with_absent(self, own: list[Item], run: list[Item]) -> list[Item]:
        """Our items that differ, a height of ours in another range, and what we hold nothing of."""
        answer = {item for item in own if item not in run}
        for key, log_id, seq_num in run:
            height = self.talk.ours.get((key, log_id), 0) if self.talk is not None else 0
            if height != seq_num:
                answer.add((key, log_id, height))
        return sorted(answer)

    def hear(self, data: bytes) -> bytes:
        """The answer to whole messages."""
        answers: list[Array] = []
        for message in wire.decode(data):
            self.heard.append(message)
            answers += self._answer(message)
        return wire.encode(*answers)

    def _answer(self, message: Array) -> list[Array]:
        kind = message[0]
        if kind == wire.ANNOUNCE:
            return []
        if kind == wire.SYNC_REQUEST:
            _, session_id, mode, schema_ids = message
            if mode not in self.modes or not set(schema_ids) <= set(self.schema_ids):
                return []
            self._begin(session_id, mode, tuple(schema_ids), local=False)
            return [self._have()] if mode == 0 else []
        talk = self.talk
        if talk is None or message[1] != talk.session_id:
            if kind != wire.SYNC_DONE and not wire.is_reconciliation(message):
                self.faults.append(f"message {kind} of a session that is not there")
            return []
        if kind == wire.ENTRY:
            return self._take(talk, *message[2:])
        if kind == wire.SYNC_DONE:
            talk.their_done = message[2]
            return []
        if kind == wire.HAVE:
            return self._answer_have(talk, message[2])
        assert wire.is_reconciliation(message), message
        return self._reconcile(talk, message)

    def _take(self, talk: Talk, entry: bytes, operation: bytes) -> list[Array]:
        name, seq_num = _place(entry)
        if material.SCHEMA_OF[name] not in talk.schema_ids:
            self.faults.append("an entry of another schema")
        if talk.their_done is not None and not (talk.their_done and talk.our_done):
            self.faults.append("an entry after SyncDone")
        height = self.held.get(name, 0)
        if seq_num <= height:
            self.repeated += 1
        elif seq_num > height + 1:
            self.faults.append(f"entry {seq_num} on height {height}")
        else:
            assert material.pairs(name, seq_num, seq_num) == [(entry, operation)], "other bytes"
            self.held[name] = seq_num
        return []

    def _have(self) -> Array:
        assert self.talk is not None
        flat = [part for item in material.items(self.talk.ours) for part in item]
        return [wire.HAVE, self.talk.session_id, flat]

    def _answer_have(self, talk: Talk, flat: list[Any]) -> list[Array]:
        for key, log_id, seq_num in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            talk.shown[key, log_id] = seq_num
        return [*([self._have()] if talk.local else []), *self._finish(talk)]

    def _reconcile(self, talk: Talk, message: Array) -> list[Array]:
        was_done, first = talk.side.done, talk.fresh
        talk.fresh = False
        taken = wire.tuple_of(message)
        if taken == ("empty_set", True) and first and self.empty_set == "entries":
            talk.side.done = True
            return self._finish(talk)
        if taken[0] == "fingerprint" and self.lift is not None:
            known = BY_CODE.get(taken[1][0])
            if known is None:
                talk.our_done = False
                return [[wire.SYNC_DONE, talk.session_id, False]]
            talk.side.fingerprint = known
        answers = self._arrays(talk.side.receive(taken))
        if taken[0] == "payload":
            key, log_id, seq_num = taken[1]
            talk.shown[key, log_id] = max(seq_num, talk.shown.get((key, log_id), 0))
            answers += self._entries(talk, (key, log_id))
        if talk.side.done and not was_done:
            answers += self._finish(talk)
        return answers

    def _finish(self, talk: Talk) -> list[Array]:
        """The logs that were never mentioned, then `SyncDone`."""
        if talk.mode == 1:
            if not self.literal:
                for lower, upper in talk.side.equal:
                    for key, log_id, seq_num in talk.side.range(lower, upper):
                        talk.shown.setdefault((key, log_id), seq_num)
            if self.absence:
                for name in talk.asked:
                    talk.shown.setdefault(name, talk.ours[name])
        entries = [message for name in talk.ours for message in self._entries(talk, name)]
        talk.our_done = self.live
        return [*entries, [wire.SYNC_DONE, talk.session_id, self.live]]

    def _entries(self, talk: Talk, name: LogName) -> list[Array]:
        height = talk.ours.get(name, 0)
        first = max(talk.shown.get(name, 0), talk.sent.get(name, 0)) + 1
        talk.sent[name] = max(height, talk.sent.get(name, 0))
        return [
            [wire.ENTRY, talk.session_id, entry, operation]
            for entry, operation in material.pairs(name, first, height)
        ]

    def _arrays(self, messages: Iterable[tuple[Any, ...]]) -> list[Array]:
        assert self.talk is not None
        arrays = []
        for message in messages:
            if message[0] == "payload":
                self.talk.run.append(message[1][:2])
                if message[2] is not None:
                    if message[2]:
                        self.talk.asked.update(self.talk.run)
                    self.talk.run.clear()
            arrays.append(wire.array_of(message, self.talk.session_id))
        return arrays

    @property
    def is_finished(self) -> bool:
        """Whether both sides have said `SyncDone`."""
        return self.talk is not None and None not in (self.talk.our_done, self.talk.their_done)


_PLACES: dict[bytes, tuple[LogName, int]] = {}


def _place(entry: bytes) -> tuple[LogName, int]:
    """Which entry of which log these bytes are."""
    if entry not in _PLACES:
        for name, pairs in material.LOGS.items():
            for seq_num, (known, _operation) in enumerate(pairs, start=1):
                _PLACES[known] = (name, seq_num)
    return _PLACES[entry]


def heights(holding: Mapping[LogName, int]) -> list[list[Any]]:
    """A holding as `p2panda.peer.state` shows it."""
    return [[*name, height] for name, height in sorted(holding.items())]
