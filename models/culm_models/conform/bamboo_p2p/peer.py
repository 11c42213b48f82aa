"""Operations on a Bamboo Point-2-Point peer: one store, any number of remotes, time as an argument."""

from __future__ import annotations

from typing import Any, Final

from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p import events
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Cursor
from culm_models.bamboo_p2p.settings import BambooSettings, Policy
from culm_models.bamboo_p2p.wire.messages import Adjust, CancelCode, Eagerness
from culm_models.conform.arguments import ArgumentError, Arguments, as_mapping
from culm_models.conform.bamboo_p2p.messages import CODE, FORMS, MODE, NAMES, flavour_of, requested_ranges
from culm_models.conform.forms import HIDDEN, Events, Form, MemberForm, RecordForm, shown
from culm_models.conform.operation import ConformOperation, MachineError, MachineKind, Machines

_PEERS: Final = MachineKind[Peer]("bamboo_p2p")
_ROLES: Final = {"proactive": True, "reactive": False}
_POLICY: Final = RecordForm(Policy, FORMS, {**NAMES, "reveals": HIDDEN})
_SETTINGS: Final = RecordForm(
    BambooSettings,
    {Policy: Form(lambda value, name: _policy(as_mapping(value, name)))},
    {
        "sends_greedily": MemberForm(MODE, "send"),
        "accepts_greedy": MemberForm(MODE, "receive"),
        "answers": HIDDEN,
        "expects_payload": HIDDEN,
    },
)
_ADJUST: Final = RecordForm(Adjust, FORMS, NAMES)
_EVENTS: Final = Events(
    {CancelCode: CODE},
    {
        "log": MemberForm(shown(lambda log: {"public_key": log[0].hex(), "log_id": log[1]}), inline=True),
        "sends_greedily": MemberForm(MODE, "send"),
        "receives_greedily": MemberForm(MODE, "receive"),
    },
)


def _policy(members: dict[str, Any]) -> Policy:
    _POLICY.check_names(members, "a policy")
    policy = _POLICY.read(members)
    _check_threshold(policy)
    if policy.code > CancelCode.MANDATORY:
        raise ArgumentError("code is not one of 128 to 132: the others carry evidence")
    return policy


def _check_threshold(asked: Policy | RequestedRange) -> None:
    if (asked.threshold is not None) != (asked.eagerness is Eagerness.THRESHOLD):
        raise ArgumentError("a threshold is given if and only if the eagerness is threshold")


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    _now(arguments)
    peer = Peer(
        MemoryBambooStore(flavour_of(arguments, YAMF)), _settings(arguments.mapping("settings", default={}))
    )
    forked = peer.add(_entries(arguments))
    _PEERS.put(machines, arguments, peer)
    return {"events": _forks(forked)}


def _forks(logs: list[LogKey]) -> list[dict[str, Any]]:
    """Return events for logs that local entries have forked; no remote is involved."""
    return [{"kind": "fork", "public_key": log[0].hex(), "log_id": log[1]} for log in logs]


def _entries(arguments: Arguments) -> list[NewEntry]:
    entries = []
    for item in arguments.items("entries", default=[]):
        fields = Arguments(as_mapping(item, "entries"))
        parts = [Arguments(as_mapping(part, "parts")) for part in fields.items("parts", default=[])]
        entries.append(
            NewEntry(
                fields.octets("entry"),
                fields.optional_octets("payload"),
                tuple((part.integer("offset"), part.octets("bytes")) for part in parts),
            )
        )
    return entries


def _settings(members: dict[str, Any]) -> BambooSettings:
    _SETTINGS.check_names(members, "a peer")
    return _SETTINGS.read(members)


def _connect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote = _PEERS.get(machines, arguments), arguments.text("remote")
    if remote in peer.connections:
        raise MachineError(f"the remote {remote[:100]!r} is connected already")
    peer.connect(remote, is_proactive=arguments.word("role", _ROLES), now_ms=_now(arguments))
    return _answer(peer, remote)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote, connection = _with_remote(machines, arguments)
    channel, data, now = arguments.text("channel"), arguments.octets("bytes"), _now(arguments)
    if channel == "control":
        connection.receive_control(data, now)
    elif channel == "data":
        connection.receive_all_data(data, now)
    else:
        raise ArgumentError("channel is not one of control, data")
    return _answer(peer, remote)


def _propose(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote, connection = _with_remote(machines, arguments)
    _now(arguments)
    wanted = requested_ranges(peer.store.flavour).read(arguments.values)
    _check_threshold(wanted)
    if wanted.upper is not None and wanted.end is None:
        raise ArgumentError("upper is given if and only if end is given")
    if wanted.lower is not None and wanted.offset is not None:
        raise ArgumentError("lower is given if and only if offset is not given")
    request_id = connection.propose(wanted)
    return {"id": request_id, **_answer(peer, remote)}


def _adjust(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote, connection = _with_remote(machines, arguments)
    _now(arguments)
    connection.adjust(_ADJUST.read(arguments.values, id=arguments.integer("request")))
    return _answer(peer, remote)


def _cancel(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote, connection = _with_remote(machines, arguments)
    _now(arguments)
    code = CODE.read(arguments.values.get("code") or CancelCode.REFUSED.value, "code")
    if code not in (CancelCode.REFUSED, CancelCode.RESOURCES, CancelCode.DONE, CancelCode.MANDATORY):
        raise ArgumentError("code is not one of 128, 129, 130, 132")
    connection.cancel(arguments.integer("request"), code)
    return _answer(peer, remote)


def _add(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
    _now(arguments)
    forked = peer.add(_entries(arguments))
    answer = _answer(peer, None)
    return {**answer, "events": _forks(forked) + answer["events"]}


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, now = _PEERS.get(machines, arguments), _now(arguments)
    for connection in peer.connections.values():
        connection.tick(now)
    return _answer(peer, None)


def _disconnect(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer, remote, _ = _with_remote(machines, arguments)
    _now(arguments)
    peer.disconnect(remote)
    return _answer(peer, None)


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    peer = _PEERS.get(machines, arguments)
    store = peer.store
    assert isinstance(store, MemoryBambooStore), "opened above"
    logs, proofs = [], []
    for public_key, log_id in store.logs:
        log = (public_key, log_id)
        named = {"public_key": public_key.hex(), "log_id": log_id}
        entries = [_held(store, log, seq_num) for seq_num in store.entries(log)]
        if entries:
            logs.append({**named, "entries": entries})
        proof = store.fork_proof(log)
        if proof is not None:
            proofs.append({**named, "entries": [entry.hex() for entry in proof]})
    return {
        "held": logs,
        "requests": [
            {
                "remote": remote,
                "id": request.id,
                "mine": request.mine,
                "state": request.state.value,
                "sent": _cursor(request.outgoing),
                "received": _cursor(request.incoming),
            }
            for remote, connection in peer.connections.items()
            for request in connection.requests
        ],
        "remotes": [
            {"remote": remote, "credit": connection.credit, "granted": connection.granted}
            for remote, connection in peer.connections.items()
        ],
        "proofs": proofs,
        "events": [],
    }


def _held(store: MemoryBambooStore, log: tuple[bytes, int], seq_num: int) -> dict[str, Any]:
    log_entry = store.entry(log, seq_num)
    assert log_entry is not None, "listed as held"
    shown: dict[str, Any] = {"entry": log_entry.entry_bytes.hex()}
    if store.has_payload(log, seq_num):
        shown["payload"] = store.read_payload(log, seq_num, 0, log_entry.entry.payload_size).hex()
    parts = [{"offset": start, "length": end - start} for start, end in store.unverified(log, seq_num)]
    if parts:
        shown["parts"] = parts
    return shown


def _cursor(cursor: Cursor) -> dict[str, int]:
    return {"pieces": cursor.piece, "bytes": cursor.offset}


def _answer(peer: Peer, remote: str | None) -> dict[str, Any]:
    """Return the data for the remote of a call, the data for others, and the events."""
    control: dict[str, bytearray] = {name: bytearray() for name in peer.connections}
    data: dict[str, bytearray] = {name: bytearray() for name in peer.connections}
    moved = True
    while moved:
        moved = False
        peer.settle()
        for name, connection in peer.connections.items():
            while turn := connection.next_data():
                data[name] += turn
                moved = True
            control[name] += connection.take_control()
    happened = [
        {"remote": name, **event_to_json(event)}
        for name, connection in peer.connections.items()
        for event in connection.take_events()
    ]
    dropped = {
        name: connection.dropped.number
        for name, connection in peer.connections.items()
        if connection.dropped is not None
    }
    for name in dropped:
        peer.disconnect(name)
    others = [
        {
            "remote": name,
            "control": control[name].hex(),
            "data": data[name].hex(),
            **({"dropped": dropped[name]} if name in dropped else {}),
        }
        for name in control
        if name != remote and (control[name] or data[name] or name in dropped)
    ]
    if remote is None:
        return {"sends": others, "events": happened}
    answer: dict[str, Any] = {"control": control[remote].hex(), "data": data[remote].hex()}
    if others:
        answer["others"] = others
    if remote in dropped:
        answer["dropped"] = dropped[remote]
    return {**answer, "events": happened}


def event_to_json(event: BambooP2pEvent) -> dict[str, Any]:
    """Return an event as JSON."""
    if isinstance(event, events.ConnectionDropped):
        return {"kind": event.kind, "code": event.code}
    return _EVENTS.show(event)


def _with_remote(machines: Machines, arguments: Arguments) -> tuple[Peer, str, BambooConnection]:
    peer, remote = _PEERS.get(machines, arguments), arguments.text("remote")
    connection = peer.connections.get(remote)
    if connection is None:
        raise MachineError(f"the remote {remote[:100]!r} is not connected")
    return peer, remote, connection


def _now(arguments: Arguments) -> int:
    return arguments.integer("now", default=0)


_SENDS = "control, data, others?, events"

OPERATIONS = (
    ConformOperation(
        "bamboo_p2p.peer.open",
        "name, hash? (yamf), entries? ([{entry, payload?, parts?}]), settings?, now, random_seed?",
        "events",
        _open,
    ),
    ConformOperation(
        "bamboo_p2p.peer.connect", "name, remote, role (proactive, reactive), now", _SENDS, _connect
    ),
    ConformOperation(
        "bamboo_p2p.peer.receive",
        "name, remote, channel (control, data), bytes, now",
        f"{_SENDS}, dropped?",
        _receive,
    ),
    ConformOperation(
        "bamboo_p2p.peer.propose",
        "name, remote, fields of propose without id, direction?, now",
        f"id, {_SENDS}",
        _propose,
    ),
    ConformOperation(
        "bamboo_p2p.peer.adjust", "name, remote, request, fields of adjust, now", _SENDS, _adjust
    ),
    ConformOperation("bamboo_p2p.peer.cancel", "name, remote, request, code? (128), now", _SENDS, _cancel),
    ConformOperation("bamboo_p2p.peer.add", "name, entries, now", "sends, events", _add),
    ConformOperation("bamboo_p2p.peer.tick", "name, now", "sends, events", _tick),
    ConformOperation("bamboo_p2p.peer.disconnect", "name, remote, now", "sends, events", _disconnect),
    ConformOperation("bamboo_p2p.peer.state", "name", "held, requests, remotes, proofs, events", _state),
)
