"""Operations on the p2panda peer machine: one local peer with any number of remotes, time as an argument."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from culm_models.bamboo import decode_entry
from culm_models.bamboo.checks import CheckedEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.conform.arguments import ArgumentError, Arguments, as_integer, as_mapping
from culm_models.conform.operation import Machines, Operation
from culm_models.conform.p2panda.messages import COMPAT
from culm_models.lifts import LIFTS
from culm_models.p2panda.errors import PeerSettingsError
from culm_models.p2panda.events import Event
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.offers import Offer

_PEER = "p2panda.peer"
_SETTING_NAMES = {field.name for field in fields(PeerSettings)}
_U63_MAX = (1 << 63) - 1
# Milliseconds, bytes or counts: far above what any of them can usefully be.
_LARGEST_SETTING = (1 << 40) - 1


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    now = _now(arguments)
    store = MemoryLogStore()
    peer = Peer(
        arguments.octets("peer_id"),
        store,
        _settings(arguments),
        random_seed=arguments.integer("random_seed", most=_U63_MAX, default=0),
    )
    given = [Arguments(as_mapping(item, "entries")) for item in arguments.items("entries", default=[])]
    for entry, operation in _in_log_order([(one.octets("entry"), one.octets("operation")) for one in given]):
        peer.publish(entry, operation, now)
    peer.announce(arguments.texts("schema_ids"), now)
    machines.put(_PEER, arguments.text("name"), peer)
    return {}


def _in_log_order(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The entries of each log in sequence, in the places of the list that the log has."""
    entries = [decode_entry(entry_bytes) for entry_bytes, _ in pairs]
    places_by_log: dict[LogKey, list[int]] = {}
    for place, entry in enumerate(entries):
        places_by_log.setdefault((entry.public_key, entry.log_id), []).append(place)
    ordered = list(pairs)
    for places in places_by_log.values():
        for place, source in zip(places, sorted(places, key=lambda at: entries[at].seq_num), strict=True):
            ordered[place] = pairs[source]
    return ordered


def _settings(arguments: Arguments) -> PeerSettings:
    chosen = arguments.mapping("settings", default={})
    unknown = set(chosen) - _SETTING_NAMES
    if unknown:
        raise ArgumentError(f"there is no setting {min(unknown)[:100]!r}")
    if arguments.has("modes"):
        chosen = {**chosen, "modes": arguments.raw("modes")}
    if "modes" in chosen:
        modes = Arguments(chosen).items("modes")
        chosen = {**chosen, "modes": tuple(as_integer(mode, "modes") for mode in modes)}
    if "lifts" in chosen:
        chosen = {**chosen, "lifts": tuple(Arguments(chosen).texts("lifts"))}
    defaults = PeerSettings()
    for name, value in chosen.items():
        if type(value) is not type(getattr(defaults, name)):
            raise ArgumentError(f"the setting {name} has the wrong type")
        if type(value) is int:
            as_integer(value, name, most=_LARGEST_SETTING)
    if chosen.get("compat", "spec") not in COMPAT:
        raise ArgumentError(f"compat is not one of {', '.join(COMPAT)}")
    if arguments.has("live_mode"):
        chosen = {**chosen, "live_mode": arguments.flag("live_mode", True)}
    try:
        return replace(defaults, **chosen)
    except PeerSettingsError as error:
        raise ArgumentError(f"the settings do not fit: {error}") from None


def _connect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _peer(machines, arguments), arguments.octets("remote_peer_id")
    if remote == peer.peer_id:
        raise ArgumentError("remote_peer_id is this peer's own")
    peer.connect(remote, _now(arguments), dialled=arguments.flag("dialled", True))
    return _answer(peer, remote)


def _disconnect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _peer(machines, arguments), arguments.octets("remote_peer_id")
    peer.disconnect(remote, _now(arguments))
    return _answer(peer, remote)


def _announce(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _peer(machines, arguments)
    peer.announce(arguments.texts("schema_ids"), _now(arguments))
    return _answer_all(peer)


def _sync(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _peer(machines, arguments), arguments.octets("remote_peer_id")
    peer.sync(remote, arguments.integer("mode", default=0), arguments.texts("schema_ids"), _now(arguments))
    return _answer(peer, remote)


def _stop_live(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _peer(machines, arguments), arguments.octets("remote_peer_id")
    peer.stop_live(remote, arguments.integer("session_id"), _now(arguments))
    return _answer(peer, remote)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _peer(machines, arguments), arguments.octets("remote_peer_id")
    peer.receive(remote, arguments.octets("bytes"), _now(arguments))
    return _answer(peer, remote)


def _publish(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _peer(machines, arguments)
    peer.publish(arguments.octets("entry"), arguments.octets("operation"), _now(arguments))
    return _answer_all(peer)


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _peer(machines, arguments)
    peer.tick(_now(arguments))
    return _answer_all(peer)


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _peer(machines, arguments)
    assert isinstance(peer.store, MemoryLogStore)
    sessions = [
        {
            "remote_peer_id": remote.hex(),
            "session_id": session.session_id,
            "mode": session.mode,
            "schema_ids": list(session.schema_ids),
            "state": session.state.value,
            "local": session.local,
        }
        for remote in peer.remotes
        for session in peer.sessions(remote)
    ]
    announcements: dict[str, Any] = {}
    for peer_id, announcement in [
        (peer.peer_id, peer.announcement),
        *((remote, peer.remote_announcement(remote)) for remote in peer.remotes),
    ]:
        if announcement is not None:
            announcements[peer_id.hex()] = {
                "version": announcement.version,
                "timestamp": announcement.timestamp,
                "schema_ids": list(announcement.schema_ids),
            }
    heights = [[key.hex(), log_id, seq_num] for key, log_id, seq_num in peer.store.all_log_heights()]
    return {"log_heights": heights, "sessions": sessions, "announcements": announcements}


def _close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close(_PEER, arguments.text("name"))
    return {}


def _peer(machines: Machines, arguments: Arguments) -> Peer:
    peer: Peer = machines.get(_PEER, arguments.text("name"))
    return peer


def _now(arguments: Arguments) -> int:
    return arguments.integer("now", most=_U63_MAX)


def _answer(peer: Peer, remote: bytes) -> dict[str, Any]:
    """What goes to one remote; what this caused for others waits for their next turn or for a tick."""
    return {"send": peer.take_outgoing(remote).hex(), "events": _events(peer)}


def _answer_all(peer: Peer) -> dict[str, Any]:
    outgoing = ((remote, peer.take_outgoing(remote)) for remote in peer.remotes)
    send = [{"to": remote.hex(), "bytes": data.hex()} for remote, data in outgoing if data]
    return {"send": send, "events": _events(peer)}


def _events(peer: Peer) -> list[dict[str, Any]]:
    return [event_to_json(event) for event in peer.take_events()]


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as an object: its kind, then its details; what does not apply is left out."""
    shown: dict[str, Any] = {"kind": event.kind}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, CheckedEntry):
            shown |= {
                "public_key": value.entry.public_key.hex(),
                "log_id": value.entry.log_id,
                "seq_num": value.entry.seq_num,
                "schema_id": value.schema_id,
                "hash": value.hash.hex(),
            }
        elif value is not None:
            shown["remote_peer_id" if field.name == "remote" else field.name] = _plain(value)
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Offer):
        return {
            "modes": sorted(value.modes),
            "lifts": [lift.name for lift in LIFTS if lift.code in value.lifts],
            "compact": value.compact,
            "absence": value.absence,
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


_ONE = "send (bytes for this remote), events"
_ALL = "send as [{to, bytes}], events"

OPERATIONS = [
    Operation(
        "p2panda.peer.open",
        "name, peer_id, schema_ids, modes?, live_mode?, settings?, entries? as [{entry, operation}], now, "
        "random_seed?",
        "",
        _open,
    ),
    Operation("p2panda.peer.connect", "name, remote_peer_id, dialled? (true), now", _ONE, _connect),
    Operation("p2panda.peer.disconnect", "name, remote_peer_id, now", _ONE, _disconnect),
    Operation("p2panda.peer.announce", "name, schema_ids, now", _ALL, _announce),
    Operation("p2panda.peer.sync", "name, remote_peer_id, mode, schema_ids, now", _ONE, _sync),
    Operation("p2panda.peer.stop_live", "name, remote_peer_id, session_id, now", _ONE, _stop_live),
    Operation("p2panda.peer.receive", "name, remote_peer_id, bytes, now", _ONE, _receive),
    Operation("p2panda.peer.publish", "name, entry, operation, now", _ALL, _publish),
    Operation("p2panda.peer.tick", "name, now", _ALL, _tick),
    Operation("p2panda.peer.state", "name", "log_heights, sessions, announcements", _state),
    Operation("p2panda.peer.close", "name", "", _close),
]
