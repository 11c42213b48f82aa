"""Plays a conversation against the channels of its people, step by step."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from culm_models.sds.channel import Channel
from culm_models.sds.errors import SdsError
from culm_models.sds.events import ChannelOutput, Event
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import HistoryEntry, Profile
from tests.models.sds.conversations.script import OPENED_MS, Json
from tests.models.sds.conversations.wires import CHANNEL

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "sds"
PROFILES: Final[tuple[Profile, ...]] = ("spec", "js", "nim")


def conversations() -> Iterator[tuple[Profile, Json]]:
    """All of all profiles."""
    for profile in PROFILES:
        for conversation in json.loads((VECTORS / f"conversations-{profile}.json").read_text()):
            yield profile, conversation


class Player:
    """The people of one conversation; with `restarts`, each is made anew from what it kept, step by step."""

    def __init__(self, profile: Profile, conversation: Json, *, restarts: bool = False) -> None:
        self._profile = profile
        self._conversation = conversation
        self._restarts = restarts
        self._channels = {who: self._channel(who, OPENED_MS) for who in conversation["people"]}
        for who, channel in self._channels.items():
            for participant_id in conversation["people"][who].get("hosts", [who]):
                channel.join(participant_id, OPENED_MS)

    def play(self) -> None:
        """Every step must cause all that is expected, and nothing else."""
        for number, step in enumerate(self._conversation["steps"]):
            where = f"{self._conversation['name']}, step {number} ({step['why']})"
            output = self._do(step)
            said = [{"kind": outbound.kind, "bytes": outbound.wire.hex()} for outbound in output.send]
            assert said == [{"kind": one["kind"], "bytes": one["bytes"]} for one in step["says"]], where
            events = [
                shown(event, expected) for event, expected in zip(output.events, step["events"], strict=False)
            ]
            assert events == step["events"], where
            assert len(output.events) == len(step["events"]), where
            fetched = [entry.message_id for fetch in output.fetch for entry in fetch.entries]
            assert fetched == step["fetch"], where
            if self._restarts:
                self._restart(step["who"])
        for who, expected in self._conversation["end"].items():
            assert self._standing(who) == expected, f"{self._conversation['name']}: {who} at the end"

    def _do(self, step: Json) -> ChannelOutput:
        channel, at_ms = self._channels[step["who"]], step["at"]
        hint = bytes.fromhex(step["hint"]) if "hint" in step else None
        if step["do"] == "receive":
            return channel.receive(bytes.fromhex(step["bytes"]), at_ms, retrieval_hint=hint)
        if step["do"] == "tick":
            return channel.tick(at_ms, step["only"])
        send = partial(
            channel.send,
            str(step.get("as", step["who"])),
            step["content"].encode(),
            at_ms,
            message_id=step["message_id"],
            ephemeral=step.get("ephemeral", False),
            retrieval_hint=hint,
        )
        if "error" not in step:
            return send()
        with pytest.raises(SdsError) as refused:
            send()
        assert refused.value.code == step["error"]
        return ChannelOutput()

    def _standing(self, who: str) -> Json:
        status = self._channels[who].status()
        return {
            "lamport": status.lamport_timestamp,
            "log": [list(entry) for entry in status.log],
            "outgoing": [[one.message_id, one.state] for one in status.outgoing],
            "incoming": [[one.message_id, list(one.missing)] for one in status.incoming],
        }

    def _channel(self, who: str, now_ms: int) -> Channel:
        settings = SdsSettings.for_profile(self._profile)
        changed = {**self._conversation["people"][who]}
        changed.pop("hosts", None)
        values = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        return Channel(
            CHANNEL, self._profile, SdsSettings(**{**values, **changed}), now_ms=now_ms, seed=who.encode()
        )

    def _restart(self, who: str) -> None:
        kept = self._channels[who]
        # What is made later must not take its Lamport timestamp from its own beginning.
        again = self._channel(who, OPENED_MS + 10**9)
        again.apply_journal(kept.journal_whole())
        again.restore_head(kept.head())
        self._channels[who] = again


def shown(event: Event, expected: Json) -> Json:
    """An event as the file has it, with the details that are expected."""
    details = {name: plain(getattr(event, name)) for name in expected if name != "kind"}
    return {"kind": event.kind, **details}


def plain(value: Any) -> Any:
    """A value of an event as JSON has it; a history entry is [id, sender]."""
    if isinstance(value, HistoryEntry):
        return [value.message_id, value.sender_id]
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
