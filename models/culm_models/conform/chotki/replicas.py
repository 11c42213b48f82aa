"""Operations on Chotki replicas: one per name, sessions over byte streams, time as an argument."""

from __future__ import annotations

from typing import Any, Final

from culm_models.chotki.dump import dump
from culm_models.chotki.ids import KEY_SIZE, OBJECT_KEY, VECTOR_KEY, Id
from culm_models.chotki.packets.handshake import MODE_MAX, MODES, TRACE_SIZE
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.settings import LARGEST_SETTING, ChotkiSettings
from culm_models.chotki.store import MemoryStore
from culm_models.conform.arguments import U64_MAX, ArgumentError, Arguments, as_integer, as_octets
from culm_models.conform.chotki.codecs import compat_of
from culm_models.conform.forms import HIDDEN, Events, MemberForm, SettingsForm, integer, or_never, shown
from culm_models.conform.operation import ConformOperation, MachineError, MachineKind, Machines

_REPLICAS: Final = MachineKind[Replica]("chotki")
_COUNT: Final = integer(max_value=LARGEST_SETTING)
_SETTINGS: Final = SettingsForm(
    ChotkiSettings, {int: _COUNT}, {"sync_cut_bytes": MemberForm(or_never(_COUNT))}
)
# Records may be too large for a line.
_EVENTS: Final = Events({Id: shown(str)}, {"record": HIDDEN})


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    compat = compat_of(arguments)
    store = _store(arguments.mapping("store", default={}))
    replica = Replica(
        arguments.integer("src", min_value=1),
        MemoryStore(store) if store else None,
        name=arguments.optional_text("replica_name") or "",
        settings=_SETTINGS.over(ChotkiSettings.for_compat(compat), arguments.mapping("settings", default={})),
        compat=compat,
        seed=arguments.integer("random_seed", max_value=U64_MAX, default=0),
    )
    _REPLICAS.put(machines, arguments, replica)
    return {}


def _store(members: dict[str, Any]) -> dict[bytes, bytes]:
    contents = {}
    for key_hex, value_hex in members.items():
        key = as_octets(key_hex, "a key of store", size=KEY_SIZE)
        if key[0] not in (OBJECT_KEY, VECTOR_KEY):
            raise ArgumentError(f"no key begins with {key[:1].hex()}")
        contents[key] = as_octets(value_hex, "a value of store")
    return contents


def _session_open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _REPLICAS.get(machines, arguments), arguments.text("session")
    if arguments.has("role") and arguments.text("role") not in ("connector", "listener"):
        raise ArgumentError("role is not one of connector, listener")
    former = replica.sessions.get(name)
    if former is not None and not former.is_over:
        raise MachineError(f"session {name!r} is open already")
    output = replica.open_session(
        name,
        arguments.now(),
        mode=_mode(arguments),
        trace=arguments.octets("trace", size=TRACE_SIZE) if arguments.has("trace") else None,
        settings=_SETTINGS.over(replica.settings, arguments.mapping("settings", default={})),
    )
    return _answer(replica, name, output)


def _mode(arguments: Arguments) -> int:
    if not arguments.has("mode"):
        return MODE_MAX
    mode = arguments.raw("mode")
    if isinstance(mode, str) and mode in MODES:
        return MODES[mode]
    return as_integer(mode, "mode", max_value=MODE_MAX)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    output = replica.receive(name, arguments.octets("bytes"), arguments.now())
    others = {other: records for other, records in output.sends.items() if other != name}
    return {**_answer(replica, name, output), "others": _by_session(others)}


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    output = _REPLICAS.get(machines, arguments).tick(arguments.now())
    return {
        "sends": _by_session(output.sends),
        "events": [{"session": name, **_EVENTS.show(event)} for name, event in output.events],
        "closed": output.closed,
    }


def _lost(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    output = replica.lose_session(name, arguments.now())
    return {"events": [_EVENTS.show(event) for event in output.events_of(name)]}


def _session_close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    return _answer(replica, name, replica.close_session(name, arguments.now()))


def _commit(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    committed = _REPLICAS.get(machines, arguments).commit(
        arguments.text("letter"),
        Id.from_text(arguments.text("ref")),
        arguments.octets("body"),
        arguments.now(),
    )
    return {
        "id": str(committed.id),
        "packet": committed.packet.hex(),
        "sends": _by_session(committed.output.sends),
    }


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica = _REPLICAS.get(machines, arguments)
    return {
        "store": {key.hex(): value.hex() for key, value in replica.store.values().items()},
        "counter": str(replica.last_id),
        "sessions": {name: _session_to_json(session) for name, session in replica.sessions.items()},
    }


def _session_to_json(session: Session) -> dict[str, Any]:
    peer = session.peer
    return {
        "state": session.state.value,
        "live": session.live,
        "sends": session.sends,
        "receives": session.receives,
        "trace": session.trace.hex(),
        **({} if peer is None else {"peer_trace": peer.trace.hex(), "peer_vector": peer.vector.hex()}),
        "syncs": [str(sync.t) for sync in session.open_syncs],
    }


def _dump(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"text": dump(_REPLICAS.get(machines, arguments).store.values())}


def _with_session(machines: Machines, arguments: Arguments) -> tuple[Replica, str]:
    replica, name = _REPLICAS.get(machines, arguments), arguments.text("session")
    if name not in replica.sessions:
        raise MachineError(f"no session is open under the name {name!r}")
    return replica, name


def _answer(replica: Replica, name: str, output: Output) -> dict[str, Any]:
    return {
        "send": _in_hex(output.of(name)),
        "events": [_EVENTS.show(event) for event in output.events_of(name)],
        "closed": replica.sessions[name].closed,
    }


def _by_session(sends: dict[str, list[bytes]]) -> list[dict[str, Any]]:
    return [{"session": name, "send": _in_hex(records)} for name, records in sends.items()]


def _in_hex(records: list[bytes]) -> list[str]:
    return [record.hex() for record in records]


_OUTPUT: Final = "send (whole records), events, closed"

OPERATIONS = [
    ConformOperation(
        "chotki.replica.open",
        "name, src, store? (a fresh replica's), replica_name?, compat? (default or go; default), settings?, "
        "now, random_seed?",
        "",
        _open,
    ),
    ConformOperation(
        "chotki.session.open",
        "name, session, role? (connector or listener), mode? (7), trace?, settings?, now",
        _OUTPUT,
        _session_open,
    ),
    ConformOperation(
        "chotki.session.receive",
        "name, session, bytes, now",
        f"{_OUTPUT}, others as [{{session, send}}]",
        _receive,
    ),
    ConformOperation("chotki.session.tick", "name, now", "sends as [{session, send}], events, closed", _tick),
    ConformOperation("chotki.session.lost", "name, session, now", "events", _lost),
    ConformOperation("chotki.session.close", "name, session, now", _OUTPUT, _session_close),
    ConformOperation(
        "chotki.replica.commit",
        "name, letter (C, O, E or Y), ref, body, now",
        "id, packet, sends as [{session, send}]",
        _commit,
    ),
    ConformOperation("chotki.replica.state", "name", "store, counter, sessions", _state),
    ConformOperation("chotki.replica.dump", "name", "text", _dump),
    ConformOperation("chotki.replica.close", "name", "", _REPLICAS.close),
]
