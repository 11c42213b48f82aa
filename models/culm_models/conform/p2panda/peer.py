"""Operations on the p2panda peer: one local peer with any number of remotes, time as an argument."""

from __future__ import annotations

from typing import Any, Final

from culm_models.bamboo import decode_entry
from culm_models.bamboo.log_store import LogKey
from culm_models.conform.arguments import U63_MAX, ArgumentError, Arguments, as_integer, as_mapping
from culm_models.conform.forms import (
    HIDDEN,
    Events,
    Form,
    MemberForm,
    RecordForm,
    SettingsForm,
    integer,
    plain,
    sequence,
    shown,
)
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.lifts import LIFTS
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import MemoryLogStore
from culm_models.p2panda.wire.messages import Announce, Offer

_ANNOUNCEMENT: Final = RecordForm(Announce, members={"raw": HIDDEN})
_PEERS: Final = MachineKind[Peer]("p2panda.peer")
# Milliseconds, bytes or counts: far above any useful value.
_LARGEST_SETTING: Final = (1 << 40) - 1
_WHOLE: Final = plain(int, "an integer")
_SETTINGS: Final = SettingsForm(
    PeerSettings,
    {int: Form(lambda value, name: as_integer(_WHOLE.read(value, name), name, max_value=_LARGEST_SETTING))},
    {"modes": MemberForm(sequence(integer()))},
)


def _entry_to_json(checked: CheckedOperation) -> dict[str, Any]:
    return {
        "public_key": checked.entry.public_key.hex(),
        "log_id": checked.entry.log_id,
        "seq_num": checked.entry.seq_num,
        "schema_id": checked.schema_id,
        "hash": checked.hash.hex(),
    }


def _offer_to_json(offer: Offer) -> dict[str, Any]:
    return {
        "modes": sorted(offer.modes),
        "lifts": [lift.name for lift in LIFTS if lift.code in offer.lifts],
        "compact": offer.compact,
        "absence": offer.absence,
    }


_EVENTS: Final = Events(
    {Offer: shown(_offer_to_json), CheckedOperation: shown(_entry_to_json)},
    {"remote": MemberForm(name="remote_peer_id"), "checked": MemberForm(inline=True)},
)


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    now = arguments.now()
    store = MemoryLogStore()
    peer = Peer(
        arguments.octets("peer_id"),
        store,
        _settings(arguments),
        random_seed=arguments.integer("random_seed", max_value=U63_MAX, default=0),
    )
    entries = [Arguments(as_mapping(item, "entries")) for item in arguments.items("entries", default=[])]
    for entry, operation in _in_log_order(
        [(fields.octets("entry"), fields.octets("operation")) for fields in entries]
    ):
        peer.publish(entry, operation, now)
    peer.announce(arguments.texts("schema_ids"), now)
    _PEERS.put(machines, arguments, peer)
    return {}


def _in_log_order(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Sort the entries of each log by sequence number, within the positions that the log has in the list."""
    entries = [decode_entry(entry_bytes) for entry_bytes, _ in pairs]
    indexes_by_log: dict[LogKey, list[int]] = {}
    for index, entry in enumerate(entries):
        indexes_by_log.setdefault((entry.public_key, entry.log_id), []).append(index)
    ordered = list(pairs)
    for indexes in indexes_by_log.values():
        for index, source in zip(indexes, sorted(indexes, key=lambda at: entries[at].seq_num), strict=True):
            ordered[index] = pairs[source]
    return ordered


def _settings(arguments: Arguments) -> PeerSettings:
    chosen = dict(arguments.mapping("settings", default={}))
    if arguments.has("modes"):
        chosen["modes"] = arguments.raw("modes")
    if arguments.has("live_mode"):
        chosen["live_mode"] = arguments.raw("live_mode")
    return _SETTINGS.over(PeerSettings(), chosen)


def _connect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.octets("remote_peer_id")
    if remote == peer.peer_id:
        raise ArgumentError("remote_peer_id is this peer's own")
    peer.connect(remote, arguments.now(), dialled=arguments.flag("dialled", True))
    return _answer(peer, remote)


def _disconnect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.octets("remote_peer_id")
    peer.disconnect(remote, arguments.now())
    return _answer(peer, remote)


def _announce(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
    peer.announce(arguments.texts("schema_ids"), arguments.now())
    return _answer_all(peer)


def _sync(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.octets("remote_peer_id")
    peer.sync(remote, arguments.integer("mode", default=0), arguments.texts("schema_ids"), arguments.now())
    return _answer(peer, remote)


def _stop_live(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.octets("remote_peer_id")
    peer.stop_live(remote, arguments.integer("session_id"), arguments.now())
    return _answer(peer, remote)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.octets("remote_peer_id")
    peer.receive(remote, arguments.octets("bytes"), arguments.now())
    return _answer(peer, remote)


def _publish(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
    peer.publish(arguments.octets("entry"), arguments.octets("operation"), arguments.now())
    return _answer_all(peer)


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
    peer.tick(arguments.now())
    return _answer_all(peer)


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
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
            announcements[peer_id.hex()] = _ANNOUNCEMENT.show(announcement)
    heights = [[key.hex(), log_id, seq_num] for key, log_id, seq_num in peer.store.all_log_heights()]
    return {"log_heights": heights, "sessions": sessions, "announcements": announcements}


def _answer(peer: Peer, remote: bytes) -> dict[str, Any]:
    """Return the data for one remote; data for other remotes waits for their next call or for a tick."""
    return {"send": peer.take_outgoing(remote).hex(), "events": _events(peer)}


def _answer_all(peer: Peer) -> dict[str, Any]:
    outgoing = ((remote, peer.take_outgoing(remote)) for remote in peer.remotes)
    send = [{"to": remote.hex(), "bytes": data.hex()} for remote, data in outgoing if data]
    return {"send": send, "events": _events(peer)}


def _events(peer: Peer) -> list[dict[str, Any]]:
    return [_EVENTS.show(event) for event in peer.take_events()]


_ONE = "send (bytes for this remote), events"
_ALL = "send as [{to, bytes}], events"

OPERATIONS = [
    ConformOperation(
        "p2panda.peer.open",
        "name, peer_id, schema_ids, modes?, live_mode?, settings?, entries? as [{entry, operation}], now, "
        "random_seed?",
        "",
        _open,
    ),
    ConformOperation("p2panda.peer.connect", "name, remote_peer_id, dialled? (true), now", _ONE, _connect),
    ConformOperation("p2panda.peer.disconnect", "name, remote_peer_id, now", _ONE, _disconnect),
    ConformOperation("p2panda.peer.announce", "name, schema_ids, now", _ALL, _announce),
    ConformOperation("p2panda.peer.sync", "name, remote_peer_id, mode, schema_ids, now", _ONE, _sync),
    ConformOperation("p2panda.peer.stop_live", "name, remote_peer_id, session_id, now", _ONE, _stop_live),
    ConformOperation("p2panda.peer.receive", "name, remote_peer_id, bytes, now", _ONE, _receive),
    ConformOperation("p2panda.peer.publish", "name, entry, operation, now", _ALL, _publish),
    ConformOperation("p2panda.peer.tick", "name, now", _ALL, _tick),
    ConformOperation("p2panda.peer.state", "name", "log_heights, sessions, announcements", _state),
    ConformOperation("p2panda.peer.close", "name", "", _PEERS.close),
]
