"""Operations on the SDS machine: one participant in one channel a name, time as an argument."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from culm_models.conform.arguments import ArgumentError, Arguments
from culm_models.conform.operation import Machines, Operation
from culm_models.conform.sds.messages import entry_to_json, profile_of
from culm_models.conform.sds.settings import settings_from_json
from culm_models.sds.channel import PARTS, Channel, Part
from culm_models.sds.events import Event, Missing
from culm_models.sds.output import ChannelOutput
from culm_models.sds.wire.messages import HistoryEntry

_KIND = "sds"
_U63_MAX = (1 << 63) - 1
_SHOWN_AS = {"reason": "message"}


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    profile, participant_id = profile_of(arguments), arguments.text("participant_id")
    now_ms = _now(arguments)
    seed = arguments.integer("random_seed", most=_U63_MAX, default=0)
    channel = Channel(
        arguments.text("channel_id"),
        profile,
        settings_from_json(arguments.mapping("settings", default={}), profile),
        now_ms=now_ms,
        seed=f"{seed} {participant_id}".encode(),
    )
    channel.join(participant_id, now_ms)
    machines.put(_KIND, arguments.text("name"), channel)
    return {}


def _send(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    channel = _channel(machines, arguments)
    output = channel.send(
        channel.participants[0],
        arguments.octets("content"),
        _now(arguments),
        ephemeral=arguments.flag("ephemeral", False),
        message_id=arguments.text("message_id") if arguments.has("message_id") else None,
        retrieval_hint=arguments.optional_octets("retrieval_hint"),
    )
    return output_to_json(output)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    output = _channel(machines, arguments).receive(
        arguments.octets("bytes"),
        _now(arguments),
        retrieval_hint=arguments.optional_octets("retrieval_hint"),
        source=arguments.text("source") if arguments.has("source") else None,
    )
    return output_to_json(output)


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return output_to_json(_channel(machines, arguments).tick(_now(arguments), _part(arguments)))


def _part(arguments: Arguments) -> Part | None:
    if not arguments.has("only"):
        return None
    wanted = arguments.text("only")
    for part in PARTS:
        if part == wanted:
            return part
    raise ArgumentError(f"only is not one of {', '.join(PARTS)}")


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    status = _channel(machines, arguments).status()
    return {
        "lamport": status.lamport_timestamp,
        "log": [list(key) for key in status.log],
        "outgoing": [
            {
                "id": one.message_id,
                "message_id": one.message_id,
                "state": one.state,
                "evidence": list(one.evidence),
                "attempts": one.attempts,
            }
            for one in status.outgoing
        ],
        "incoming": [
            {"id": one.message_id, "message_id": one.message_id, "missing": list(one.missing)}
            for one in status.incoming
        ],
        "missing": [entry_to_json(one.entry) for one in status.missing],
        "lost": list(status.lost),
        "quarantined": list(status.quarantined),
        "bloom": status.bloom_filter.hex(),
        **({} if status.next_due_ms is None else {"next_due_ms": status.next_due_ms}),
    }


def _close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close(_KIND, arguments.text("name"))
    return {}


def _channel(machines: Machines, arguments: Arguments) -> Channel:
    channel: Channel = machines.get(_KIND, arguments.text("name"))
    return channel


def _now(arguments: Arguments) -> int:
    return arguments.integer("now", most=_U63_MAX)


def output_to_json(output: ChannelOutput) -> dict[str, Any]:
    """What one step caused."""
    return {
        "send": [outbound.wire.hex() for outbound in output.send],
        "events": [event_to_json(event) for event in output.events],
        "fetch": [
            {"attempt": fetch.attempt, "entries": [entry_to_json(entry) for entry in fetch.entries]}
            for fetch in output.fetch
        ],
    }


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as an object: its kind, then its details; what does not apply is left out."""
    shown: dict[str, Any] = {"kind": event.kind}
    for field in fields(event):
        value = getattr(event, field.name)
        if value is not None:
            shown[_SHOWN_AS.get(field.name, field.name)] = _plain(value)
    if isinstance(event, Missing):
        shown["missing"] = [entry.message_id for entry in event.entries]
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, HistoryEntry):
        return entry_to_json(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


_OUTPUT = "send (messages to broadcast), events, fetch as [{attempt, entries}]"

OPERATIONS = [
    Operation(
        "sds.open",
        "name, profile? (spec, js or nim; spec), participant_id, channel_id, settings?, now, random_seed?",
        "",
        _open,
    ),
    Operation(
        "sds.send", "name, content, ephemeral? (false), message_id?, retrieval_hint?, now", _OUTPUT, _send
    ),
    Operation("sds.receive", "name, bytes, retrieval_hint?, source? (store), now", _OUTPUT, _receive),
    Operation("sds.tick", "name, now, only? (incoming, outgoing, sync or repair)", _OUTPUT, _tick),
    Operation(
        "sds.state",
        "name",
        "lamport, log, outgoing, incoming, missing, lost, quarantined, bloom, next_due_ms?",
        _state,
    ),
    Operation("sds.close", "name", "", _close),
]
