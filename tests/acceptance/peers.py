"""Peers behind `culm conform`, and the wires between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from culm_models.conform.dispatch import Conformance
from tests.acceptance import material, wire
from tests.acceptance.material import Holding
from tests.support.p2panda.logs import SCHEMA

LOW, HIGH = "01" * 32, "09" * 32
NOW = 1_700_000_000_000
_MOST_TURNS = 4_000


class Lines:
    """One conversation: an object a line in, an object a line out."""

    def __init__(self) -> None:
        self._conformance = Conformance()

    def ok(self, do: str, **arguments: Any) -> dict[str, Any]:
        """What a request is answered with; an error fails the test."""
        answer = json.loads(self._conformance.answer_line(json.dumps({"do": do, **arguments})))
        assert "ok" in answer, (do, answer)
        fields: dict[str, Any] = answer["ok"]
        return fields


class CulmPeer:
    """One `p2panda.peer`; ``waiting`` holds the bytes that it wants to send, by remote."""

    def __init__(
        self,
        lines: Lines,
        peer_id: str,
        holding: Holding,
        schema_ids: Sequence[str] = (SCHEMA,),
        **arguments: Any,
    ) -> None:
        self.lines, self.peer_id, self.now = lines, peer_id, NOW
        self.waiting: dict[str, bytes] = {}
        self.events: list[dict[str, Any]] = []
        self.name = f"peer {peer_id}"
        self._ask(
            "open",
            peer_id=peer_id,
            schema_ids=list(schema_ids),
            entries=material.as_json(holding),
            **arguments,
        )

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self.lines.ok(f"p2panda.peer.{do}", name=self.name, now=self.now, **arguments)

    def do(self, do: str, remote: str | None = None, **arguments: Any) -> list[dict[str, Any]]:
        """An operation; what is to be sent waits, what happened is returned."""
        if remote is not None:
            arguments["remote_peer_id"] = remote
        answer = self._ask(do, **arguments)
        sent = answer["send"]
        if isinstance(sent, str):
            assert remote is not None
            sent = [{"to": remote, "bytes": sent}]
        for part in sent:
            self.waiting[part["to"]] = self.waiting.get(part["to"], b"") + bytes.fromhex(part["bytes"])
        events: list[dict[str, Any]] = answer["events"]
        self.events += events
        return events

    def connect(self, remote: str, *, dialled: bool = False) -> None:
        """A link to a remote is up."""
        self.do("connect", remote, dialled=dialled)

    def sync(self, remote: str, mode: int = 1, schema_ids: Sequence[str] = (SCHEMA,)) -> None:
        """Ask for a session."""
        self.do("sync", remote, mode=mode, schema_ids=list(schema_ids))

    def receive(self, remote: str, data: bytes) -> list[dict[str, Any]]:
        """Bytes of a remote."""
        return self.do("receive", remote, bytes=data.hex())

    def publish(self, name: material.LogName, seq_num: int) -> None:
        """The next entry of a log of its own."""
        ((entry, operation),) = material.pairs(name, seq_num, seq_num)
        self.do("publish", entry=entry.hex(), operation=operation.hex())

    def later(self, milliseconds: int) -> list[dict[str, Any]]:
        """Time passes."""
        self.now += milliseconds
        return self.do("tick")

    def take(self, remote: str) -> bytes:
        """What it wants to send to a remote."""
        return self.waiting.pop(remote, b"")

    def state(self) -> dict[str, Any]:
        """All that it tells of itself."""
        return self.lines.ok("p2panda.peer.state", name=self.name)

    @property
    def held(self) -> Holding:
        """What it holds."""
        return {(key, log_id): height for key, log_id, height in self.state()["log_heights"]}

    def sessions(self, remote: str) -> list[dict[str, Any]]:
        """Its sessions with a remote."""
        return [each for each in self.state()["sessions"] if each["remote_peer_id"] == remote]

    def count(self, kind: str) -> int:
        """How many events of a kind there were."""
        return sum(event["kind"] == kind for event in self.events)

    def codes(self) -> list[str]:
        """The codes of what was passed over, refused or failed."""
        return [event["code"] for event in self.events if "code" in event]


class Link:
    """Two Culm peers and the wire between them, message by message; ``said`` is all that was delivered."""

    def __init__(
        self,
        low: Holding,
        high: Holding,
        *,
        low_arguments: dict[str, Any] | None = None,
        high_arguments: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        lines = Lines()
        self.low = CulmPeer(lines, LOW, low, **{**arguments, **(low_arguments or {})})
        self.high = CulmPeer(lines, HIGH, high, **{**arguments, **(high_arguments or {})})
        self.said: list[tuple[str, wire.Array]] = []
        self.held_at_start = (low, high)
        self.wanted = material.union(low, high)
        self.sides = ((self.low, self.high), (self.high, self.low))

    def connect(self) -> None:
        """Bring the link up."""
        self.low.connect(HIGH, dialled=True)
        self.high.connect(LOW)
        self.settle()

    def cut(self) -> None:
        """The link goes down; what was under way is lost."""
        for peer, other in self.sides:
            peer.take(other.peer_id)
            peer.do("disconnect", other.peer_id)
            peer.take(other.peer_id)

    def settle(self, step: int | None = None, *, most_messages: int | None = None) -> bool:
        """Deliver until nothing moves; in pieces of ``step`` bytes, or only so many messages.

        Returns whether nothing moves any more.
        """
        left = most_messages
        for _ in range(_MOST_TURNS):
            moved = False
            for peer, other in self.sides:
                data = peer.take(other.peer_id)
                if not data:
                    continue
                moved = True
                if left is not None:
                    ends = wire.boundaries(data)
                    taken = ends[: max(left, 0)]
                    left -= len(ends)
                    data = data[: taken[-1]] if taken else b""
                self.said += [(peer.peer_id, message) for message in wire.decode(data)]
                self._carry(peer, other, data, step)
                if left is not None and left <= 0:
                    return False
            if not moved:
                return True
        raise AssertionError("the peers do not come to an end")

    @staticmethod
    def _carry(peer: CulmPeer, other: CulmPeer, data: bytes, step: int | None) -> None:
        size = step or max(1, len(data))
        for start in range(0, len(data), size):
            other.receive(peer.peer_id, data[start : start + size])

    def of(self, kind: int, sender: str | None = None) -> list[wire.Array]:
        """The messages of a kind that were delivered."""
        return [message for who, message in self.said if message[0] == kind and sender in (None, who)]

    def assert_equal(self) -> None:
        """Both hold everything."""
        assert material.lacking(self.low.held, self.wanted) == 0, "the lower id lacks entries"
        assert material.lacking(self.high.held, self.wanted) == 0, "the higher id lacks entries"
        assert self.low.held == self.high.held == self.wanted
