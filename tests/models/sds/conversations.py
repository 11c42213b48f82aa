"""The conversations of tests/vectors/sds: the bytes of a message from its fields, and what plays them.

`wire_of` writes bytes in the plainest way: no codec, no filter and no cache of Culm. Of the hashes only
FarmHash is Culm's own, which has vectors of its own; the rest is a dozen lines of protobuf and a filter as a
set of numbers (reference/sds.md, 1.1 and 2).
"""

import json
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import mmh3
import pytest

from culm_models.sds.bloom.farmhash import fingerprint64
from culm_models.sds.channel import Channel
from culm_models.sds.errors import SdsError
from culm_models.sds.events import ChannelOutput, SdsEvent
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import HistoryEntry, Profile

VECTORS: Final = Path(__file__).parents[2] / "vectors" / "sds"
PROFILES: Final[tuple[Profile, ...]] = ("spec", "js", "nim")
# All channels are opened at 999 s, a second before anything happens.
OPENED_MS: Final = 999_000
# Filters of 32 bytes, small enough to be read: 20 ids at an error rate of 0.01 make ceil(9.59) = 10 bits an
# id, 200 bits, round(ln 2 * 10) = 7 hashes and 1 + 200 // 64 = 4 words.
CAPACITY: Final = 20
ERROR_RATE: Final = 0.01
_BITS: Final = 200
_HASHES: Final = 7
_BYTES: Final = 32
CHANNEL: Final = "room"

Json = dict[str, Any]


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
            sent = [{"kind": outbound.kind, "bytes": outbound.wire.hex()} for outbound in output.send]
            assert sent == [
                {"kind": outbound["kind"], "bytes": outbound["bytes"]} for outbound in step["says"]
            ], where
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
            "outgoing": [[message.message_id, message.state] for message in status.outgoing],
            "incoming": [[message.message_id, list(message.missing)] for message in status.incoming],
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


def shown(event: SdsEvent, expected: Json) -> Json:
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


def wire_of(message: Json, profile: str) -> bytes:
    """`message`: sender, id, lamport, history and repair, filter (ids), content.

    Entries of history and repair are [id, sender] or [id, sender, hint in hexadecimal].
    """
    return _nim(message) if profile == "nim" else _spec(message)


def _repair_hash(profile: str, text: str) -> int:
    if profile != "nim":
        return int.from_bytes(sha256(text.encode()).digest()[:8], "big")
    return int.from_bytes(fingerprint64(text.encode()).to_bytes(8, "big"), "big", signed=True)


def _spec(message: Json) -> bytes:
    data = _text(1, message["sender"]) + _text(2, message["id"]) + _text(3, CHANNEL)
    if message["lamport"] is not None:
        data += _number(10, message["lamport"])
        data += b"".join(_octets(11, _entry(entry)) for entry in message["history"])
        data += _octets(12, _filter(message["filter"], "js"))
    data += b"".join(_octets(13, _entry(entry)) for entry in message["repair"])
    return data + (_octets(20, message["content"].encode()) if message["content"] else b"")


def _nim(message: Json) -> bytes:
    bits = _filter(message["filter"], "nim")
    container = _octets(1, bits) + _number(2, CAPACITY) + _number(3, round(ERROR_RATE * 1_000_000))
    container += _number(4, _HASHES) + _number(5, _BITS)
    data = _text(1, message["id"]) + _number(2, message["lamport"])
    data += b"".join(_octets(3, _entry(entry)) for entry in message["history"])
    data += _text(4, CHANNEL) + _octets(5, message["content"].encode()) + _octets(6, container)
    data += _text(7, message["sender"])
    return data + b"".join(_octets(13, _entry(entry)) for entry in message["repair"])


def _entry(entry: list[str]) -> bytes:
    message_id, sender_id, *hint = entry
    return (
        _text(1, message_id)
        + b"".join(_octets(2, bytes.fromhex(text)) for text in hint)
        + _text(3, sender_id)
    )


def _filter(ids: list[str], layout: str) -> bytes:
    bits = bytearray(_BYTES)
    for message_id in ids:
        first, second = (abs(_bloom_hash(text, layout)) % _BITS for text in (message_id, message_id + " b"))
        for step in range(_HASHES):
            bit = (first + step * second) % _BITS
            # js writes each word of 64 bits with its highest byte first, nim with its lowest.
            byte_index = bit // 8 if layout == "nim" else bit // 64 * 8 + 7 - bit % 64 // 8
            bits[byte_index] |= 1 << bit % 8
    return bytes(bits)


def _bloom_hash(text: str, layout: str) -> int:
    return _repair_hash("nim", text) if layout == "nim" else mmh3.hash(text, signed=True)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _octets(field, text.encode())


def _octets(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    low = b""
    while value >= 0x80:
        low += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return low + bytes((value,))
