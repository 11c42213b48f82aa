"""Operations on the SDS channel: one participant in one channel per name, time as an argument."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import U63_MAX, Arguments
from culm_models.conform.forms import Events, MemberForm, RecordForm
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.conform.sds.messages import profile_of
from culm_models.conform.sds.settings import settings_from_json
from culm_models.sds.channel import PARTS, Channel, Part
from culm_models.sds.events import ChannelOutput, Missing, SdsEvent
from culm_models.sds.wire.messages import HistoryEntry

_CHANNELS: Final = MachineKind[Channel]("sds")
_PARTS: Final[dict[str, Part]] = {part: part for part in PARTS}
_ENTRY: Final = RecordForm(HistoryEntry)
_EVENTS: Final = Events({}, {"reason": MemberForm(name="message")})


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    profile, participant_id = profile_of(arguments), arguments.text("participant_id")
    now_ms = arguments.now()
    seed = arguments.integer("random_seed", max_value=U63_MAX, default=0)
    channel = Channel(
        arguments.text("channel_id"),
        profile,
        settings_from_json(arguments.mapping("settings", default={}), profile),
        now_ms=now_ms,
        seed=f"{seed} {participant_id}".encode(),
    )
    channel.join(participant_id, now_ms)
    _CHANNELS.put(machines, arguments, channel)
    return {}


def _send(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    channel = _CHANNELS.get(machines, arguments)
    output = channel.send(
        channel.participants[0],
        arguments.octets("content"),
        arguments.now(),
        ephemeral=arguments.flag("ephemeral", False),
        message_id=arguments.optional_text("message_id"),
        retrieval_hint=arguments.optional_octets("retrieval_hint"),
    )
    return output_to_json(output)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    output = _CHANNELS.get(machines, arguments).receive(
        arguments.octets("bytes"),
        arguments.now(),
        retrieval_hint=arguments.optional_octets("retrieval_hint"),
        source=arguments.optional_text("source"),
    )
    return output_to_json(output)


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    only = arguments.word("only", _PARTS) if arguments.has("only") else None
    return output_to_json(_CHANNELS.get(machines, arguments).tick(arguments.now(), only))


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    status = _CHANNELS.get(machines, arguments).status()
    return {
        "lamport": status.lamport_timestamp,
        "log": [list(key) for key in status.log],
        "outgoing": [
            {
                "id": waiting.message_id,
                "message_id": waiting.message_id,
                "state": waiting.state,
                "evidence": list(waiting.evidence),
                "attempts": waiting.attempts,
            }
            for waiting in status.outgoing
        ],
        "incoming": [
            {"id": waiting.message_id, "message_id": waiting.message_id, "missing": list(waiting.missing)}
            for waiting in status.incoming
        ],
        "missing": [_ENTRY.show(waiting.entry) for waiting in status.missing],
        "lost": list(status.lost),
        "quarantined": list(status.quarantined),
        "bloom": status.bloom_filter.hex(),
        **({} if status.next_due_ms is None else {"next_due_ms": status.next_due_ms}),
    }


def output_to_json(output: ChannelOutput) -> dict[str, Any]:
    """Return the output of one step as JSON."""
    return {
        "send": [outbound.wire.hex() for outbound in output.send],
        "events": [event_to_json(event) for event in output.events],
        "fetch": [
            {"attempt": fetch.attempt, "entries": [_ENTRY.show(entry) for entry in fetch.entries]}
            for fetch in output.fetch
        ],
    }


def event_to_json(event: SdsEvent) -> dict[str, Any]:
    """Return an event as an object: its kind, then its details; absent details are left out."""
    shown = _EVENTS.show(event)
    if isinstance(event, Missing):
        shown["missing"] = [entry.message_id for entry in event.entries]
    return shown


_OUTPUT = "send (messages to broadcast), events, fetch as [{attempt, entries}]"

OPERATIONS = [
    ConformOperation(
        "sds.open",
        "name, profile? (spec, js or nim; spec), participant_id, channel_id, settings?, now, random_seed?",
        "",
        _open,
    ),
    ConformOperation(
        "sds.send", "name, content, ephemeral? (false), message_id?, retrieval_hint?, now", _OUTPUT, _send
    ),
    ConformOperation("sds.receive", "name, bytes, retrieval_hint?, source? (store), now", _OUTPUT, _receive),
    ConformOperation("sds.tick", "name, now, only? (incoming, outgoing, sync or repair)", _OUTPUT, _tick),
    ConformOperation(
        "sds.state",
        "name",
        "lamport, log, outgoing, incoming, missing, lost, quarantined, bloom, next_due_ms?",
        _state,
    ),
    ConformOperation("sds.close", "name", "", _CHANNELS.close),
]
