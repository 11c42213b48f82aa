"""Operations on Chotki replicas: a whole peer a name, sessions over streams of bytes, time as an argument."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any, Final

from culm_models.chotki.dump import dump
from culm_models.chotki.events import SessionEvent
from culm_models.chotki.ids import KEY_SIZE, OBJECT_KEY, VECTOR_KEY, Id
from culm_models.chotki.packets.handshake import MODE_MAX, MODES, TRACE_SIZE
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.settings import LARGEST_SETTING, UNREADABLE, ChotkiSettings, SettingsUnfit
from culm_models.chotki.store import MemoryStore
from culm_models.conform.arguments import U64_MAX, ArgumentError, Arguments, as_integer, as_octets
from culm_models.conform.chotki.arguments import compat_of
from culm_models.conform.operation import MachineError, Machines, Operation

_KIND: Final = "chotki"
_U63_MAX: Final = (1 << 63) - 1
_SETTING_NAMES: Final = {field.name.removesuffix("_ms"): field.name for field in fields(ChotkiSettings)}
_NOT_SHOWN: Final = frozenset({"record"})
"""Members of events that may be larger than a line should be."""


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    compat = compat_of(arguments)
    store = _store(arguments.mapping("store", default={}))
    replica = Replica(
        arguments.integer("src", least=1),
        MemoryStore(store) if store else None,
        name=arguments.text("replica_name") if arguments.has("replica_name") else "",
        settings=_settings(ChotkiSettings.for_compat(compat), arguments),
        compat=compat,
        seed=arguments.integer("random_seed", most=U64_MAX, default=0),
    )
    machines.put(_KIND, arguments.text("name"), replica)
    return {}


def _store(given: dict[str, Any]) -> dict[bytes, bytes]:
    found = {}
    for key_hex, value_hex in given.items():
        key = as_octets(key_hex, "a key of store", size=KEY_SIZE)
        if key[0] not in (OBJECT_KEY, VECTOR_KEY):
            raise ArgumentError(f"no key begins with {key[:1].hex()}")
        found[key] = as_octets(value_hex, "a value of store")
    return found


def _settings(over: ChotkiSettings, arguments: Arguments) -> ChotkiSettings:
    """The argument ``settings`` over others: names of the settings, with or without the unit of times."""
    chosen: dict[str, Any] = {}
    for given, value in arguments.mapping("settings", default={}).items():
        plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", given).lower().removesuffix("_ms")
        name = _SETTING_NAMES.get(plain)
        if name is None:
            raise ArgumentError(f"there is no setting {given[:100]!r}")
        if name == "unreadable_values":
            if value not in UNREADABLE:
                raise ArgumentError(f"{name} is not one of {', '.join(UNREADABLE)}")
            chosen[name] = value
        elif name == "sync_cut_bytes" and value in (None, 0) and not isinstance(value, bool):
            chosen[name] = None
        else:
            chosen[name] = as_integer(value, f"the setting {given}", most=LARGEST_SETTING)
    try:
        return replace(over, **chosen)
    except SettingsUnfit as error:
        raise ArgumentError(f"the settings do not fit: {error}") from None


def _session_open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _replica(machines, arguments), arguments.text("session")
    if arguments.has("role") and arguments.text("role") not in ("connector", "listener"):
        raise ArgumentError("role is not one of connector, listener")
    former = replica.sessions.get(name)
    if former is not None and not former.is_over:
        raise MachineError(f"session {name!r} is open already")
    output = replica.open_session(
        name,
        _now(arguments),
        mode=_mode(arguments),
        trace=arguments.octets("trace", size=TRACE_SIZE) if arguments.has("trace") else None,
        settings=_settings(replica.settings, arguments),
    )
    return _answer(replica, name, output)


def _mode(arguments: Arguments) -> int:
    if not arguments.has("mode"):
        return MODE_MAX
    given = arguments.raw("mode")
    if isinstance(given, str) and given in MODES:
        return MODES[given]
    return as_integer(given, "mode", most=MODE_MAX)


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    output = replica.receive(name, arguments.octets("bytes"), _now(arguments))
    others = {other: records for other, records in output.sends.items() if other != name}
    return {**_answer(replica, name, output), "others": _by_session(others)}


def _tick(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    output = _replica(machines, arguments).tick(_now(arguments))
    return {
        "sends": _by_session(output.sends),
        "events": [{"session": name, **event_to_json(event)} for name, event in output.events],
        "closed": output.closed,
    }


def _lost(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    output = replica.lose_session(name, _now(arguments))
    return {"events": [event_to_json(event) for event in output.events_of(name)]}


def _session_close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica, name = _with_session(machines, arguments)
    return _answer(replica, name, replica.close_session(name, _now(arguments)))


def _commit(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    committed = _replica(machines, arguments).commit(
        arguments.text("letter"),
        Id.from_text(arguments.text("ref")),
        arguments.octets("body"),
        _now(arguments),
    )
    return {
        "id": str(committed.id),
        "packet": committed.packet.hex(),
        "sends": _by_session(committed.output.sends),
    }


def _state(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    replica = _replica(machines, arguments)
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
    return {"text": dump(_replica(machines, arguments).store.values())}


def _close(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    machines.close(_KIND, arguments.text("name"))
    return {}


def _replica(machines: Machines, arguments: Arguments) -> Replica:
    replica: Replica = machines.get(_KIND, arguments.text("name"))
    return replica


def _with_session(machines: Machines, arguments: Arguments) -> tuple[Replica, str]:
    replica, name = _replica(machines, arguments), arguments.text("session")
    if name not in replica.sessions:
        raise MachineError(f"no session is open under the name {name!r}")
    return replica, name


def _now(arguments: Arguments) -> int:
    return arguments.integer("now", most=_U63_MAX)


def _answer(replica: Replica, name: str, output: Output) -> dict[str, Any]:
    return {
        "send": _in_hex(output.of(name)),
        "events": [event_to_json(event) for event in output.events_of(name)],
        "closed": replica.sessions[name].closed,
    }


def _by_session(sends: dict[str, list[bytes]]) -> list[dict[str, Any]]:
    return [{"session": name, "send": _in_hex(records)} for name, records in sends.items()]


def _in_hex(records: list[bytes]) -> list[str]:
    return [record.hex() for record in records]


def event_to_json(event: SessionEvent) -> dict[str, Any]:
    """An event as an object: its kind, then its details."""
    shown: dict[str, Any] = {"kind": event.kind}
    for field in fields(event):
        if field.name not in _NOT_SHOWN:
            shown[field.name] = _plain(getattr(event, field.name))
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Id):
        return str(value)
    return value


_OUTPUT: Final = "send (whole records), events, closed"

OPERATIONS = [
    Operation(
        "chotki.replica.open",
        "name, src, store? (a fresh replica's), replica_name?, compat? (default or go; default), settings?, "
        "now, random_seed?",
        "",
        _open,
    ),
    Operation(
        "chotki.session.open",
        "name, session, role? (connector or listener), mode? (7), trace?, settings?, now",
        _OUTPUT,
        _session_open,
    ),
    Operation(
        "chotki.session.receive",
        "name, session, bytes, now",
        f"{_OUTPUT}, others as [{{session, send}}]",
        _receive,
    ),
    Operation("chotki.session.tick", "name, now", "sends as [{session, send}], events, closed", _tick),
    Operation("chotki.session.lost", "name, session, now", "events", _lost),
    Operation("chotki.session.close", "name, session, now", _OUTPUT, _session_close),
    Operation(
        "chotki.replica.commit",
        "name, letter (C, O, E or Y), ref, body, now",
        "id, packet, sends as [{session, send}]",
        _commit,
    ),
    Operation("chotki.replica.state", "name", "store, counter, sessions", _state),
    Operation("chotki.replica.dump", "name", "text", _dump),
    Operation("chotki.replica.close", "name", "", _close),
]
