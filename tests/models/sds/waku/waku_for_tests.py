"""A channel of the running @waku/sds and one of ours, as participants that tests move alike."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from culm_models.sds.channel import Channel
from culm_models.sds.events import ChannelOutput, Delivered, OutboundKind, SdsEvent
from culm_models.sds.settings import SdsSettings
from tests.support.sds.waku import WakuSds

NOW = 1_763_760_000_000
CHANNEL = "channel"


class Culm:
    """One full participant of ours, in the profile js. `events` are all so far, `wires` what it sent."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        changed = replace(SdsSettings.for_profile("js"), **settings)
        self.channel = Channel(CHANNEL, "js", changed, now_ms=NOW, seed=name.encode())
        self.channel.join(name, NOW)
        self.events: list[SdsEvent] = []
        self.wanted: list[str] = []

    def did(self, output: ChannelOutput) -> list[bytes]:
        """What a step broadcasts; what it asks a store for goes to `wanted`."""
        self.events += output.events
        self.wanted += [entry.message_id for fetch in output.fetch for entry in fetch.entries]
        return [outbound.wire for outbound in output.send]

    def send(self, content: bytes, now: int, **options: Any) -> bytes:
        """The wire of a new message."""
        (wire,) = self.did(self.channel.send(self.name, content, now, **options))
        return wire

    def receive(self, wire: bytes, now: int, source: str | None = None) -> list[bytes]:
        """Take a message; what is broadcast at once."""
        return self.did(self.channel.receive(wire, now, source=source))

    def tick(self, now: int, only: Any = None) -> list[bytes]:
        """What is due is broadcast."""
        return self.did(self.channel.tick(now, only))

    def until_sent(self, now: int, kind: OutboundKind) -> tuple[int, list[bytes]]:
        """Go from one due time to the next until something of a kind is broadcast: that time, and the wires.

        What else is broadcast before gets lost.
        """
        for _ in range(100):
            due = self.channel.next_due_ms()
            assert due is not None, "nothing is ever due"
            now = max(now, due)
            output = self.channel.tick(now)
            self.did(output)
            if wires := [outbound.wire for outbound in output.send if outbound.kind == kind]:
                return now, wires
        raise AssertionError(f"no {kind} is broadcast")

    def seen(self, kind: str) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if event.kind == kind]

    @property
    def log(self) -> list[tuple[int, str]]:
        return list(self.channel.status().log)

    @property
    def delivered(self) -> list[str]:
        return [event.message_id for event in self.events if isinstance(event, Delivered)]


class Waku:
    """One participant that is a `MessageChannel` of @waku/sds. `events` are all so far, as (kind, detail)."""

    def __init__(self, driver: WakuSds, name: str, **options: Any) -> None:
        self._driver = driver
        self._name = f"{name}/{id(self)}"
        self.name = name
        self.events: list[tuple[str, Any]] = []
        self._ask("open", NOW, channel_id=CHANNEL, participant_id=name, options=options)

    def _ask(self, do: str, now: int, **arguments: Any) -> dict[str, Any]:
        answer = self._driver.ask(do, name=self._name, now=now, **arguments)
        events = [(event["kind"], event["detail"]) for event in answer.get("events", [])]
        assert not [event for event in events if "rror" in event[0]], events
        self.events += events
        return answer

    def _wires(self, do: str, now: int, **arguments: Any) -> list[bytes]:
        return [bytes.fromhex(wire) for wire in self._ask(do, now, **arguments)["send"]]

    def send(self, content: bytes, now: int, *, ephemeral: bool = False) -> bytes:
        """The wire of a new message; its id is the hash of the content."""
        (wire,) = self._wires("send", now, content=content.hex(), ephemeral=ephemeral)
        return wire

    def receive(self, wire: bytes, now: int) -> dict[str, Any]:
        """Take a message: the driver's answer, with the kind that it was taken for."""
        return self._ask("receive", now, bytes=wire.hex())

    def sync(self, now: int) -> list[bytes]:
        """A sync, where there is something to tell."""
        return self._wires("sync", now)

    def resend(self, now: int) -> list[bytes]:
        """Everything that is unacknowledged again."""
        return self._wires("sweep_outgoing", now)

    def deliver(self, now: int) -> list[str]:
        """Deliver what can be delivered; the ids that are missing."""
        missing: list[str] = self._ask("sweep_incoming", now)["missing"]
        return missing

    def answer(self, now: int) -> list[bytes]:
        """Answers to repair requests that are due."""
        return self._wires("sweep_repair", now)

    def state(self, now: int) -> dict[str, Any]:
        """Lamport timestamp, log, buffers and filter."""
        return self._ask("state", now)

    def log(self, now: int) -> list[tuple[int, str]]:
        return [(int(lamport), message_id) for lamport, message_id in self.state(now)["log"]]

    def seen(self, kind: str) -> list[Any]:
        """The details of the events of a kind, named without `sds:`."""
        return [detail for name, detail in self.events if name in (kind, f"sds:{kind}")]


def waku_id(content: bytes) -> str:
    """The id that @waku/sds gives to a message with this content."""
    return sha256(content).hexdigest()
