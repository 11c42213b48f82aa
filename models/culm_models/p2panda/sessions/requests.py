"""Requests for sessions (specification "replication", 2): splitting own ones, delaying remote ones.

A `Have` names every log that its sender holds of the session's schemas, in one message. If it would be too
large, set reconciliation is used, or several sessions about fewer schemas. A `Have` that is too large for a
single schema is never sent in part: the remote would regard the rest as missing, and send it.

By the specification, a request about schemas that are not announced yet is ignored, so that a peer that asks
a moment too early waits for an answer that never comes. Here the request may wait for our announcement
instead, for a limited time and in a limited number for each remote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.p2panda.errors import DuplicateSessionError, HaveTooLargeError
from culm_models.p2panda.sessions.auto_sync import AutoSync
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire import have_codec
from culm_models.p2panda.wire.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Have,
    Offer,
    SyncRequest,
)

MAX_WAITING: Final = 16
"""Waiting requests of one remote; together they name at most `max_schema_ids` schemas."""


def fitting(
    peer: PeerState,
    remote: bytes,
    auto: AutoSync,
    offer: Offer | None,
    mode: int,
    wanted: tuple[str, ...],
) -> list[tuple[int, tuple[str, ...]]]:
    """Return modes and schemas of the sessions that serve `wanted`; `auto` and `offer` are the remote's.

    Raises `HaveTooLargeError`.
    """
    if mode != MODE_LOG_HEIGHT:
        return [(mode, wanted)]
    found = split(peer.store, wanted, peer.settings.max_sent_bytes)
    requests = [(mode, part) for part in found.parts]
    if found.parts == (wanted,):
        return requests
    if auto.can_have(MODE_SET_RECONCILIATION, offer):
        return [(MODE_SET_RECONCILIATION, wanted)]
    if found.too_large:
        if auto.can_try(MODE_SET_RECONCILIATION, offer):
            return [*requests, (MODE_SET_RECONCILIATION, found.too_large)]
        error = _too_large(found.too_large)
        if not requests:
            raise error
        peer.events.ignored(remote, error)
    return requests


@dataclass(frozen=True, slots=True)
class SchemaParts:
    """Schemas split for sessions: one for each of `parts`, in the given order; none for `too_large`."""

    parts: tuple[tuple[str, ...], ...]
    too_large: tuple[str, ...] = ()


def split(store: LogStore, schema_ids: Sequence[str], max_message_bytes: int) -> SchemaParts:
    """Split schemas into parts whose heights fit in one message, merging neighbours."""
    most = have_codec.room(max_message_bytes)
    if have_codec.size_within(store.log_heights(schema_ids), most) is not None:
        return SchemaParts((tuple(schema_ids),))
    parts: list[list[str]] = []
    too_large: list[str] = []
    taken = most
    for schema in schema_ids:
        size = have_codec.size_within(store.log_heights((schema,)), most)
        if size is None:
            too_large.append(schema)
            continue
        if taken + size > most or not parts:
            parts.append([])
            taken = 0
        parts[-1].append(schema)
        taken += size
    return SchemaParts(tuple(map(tuple, parts)), tuple(too_large))


def have(peer: PeerState, session_id: int, schema_ids: Sequence[str]) -> Have:
    """Return our heights of these schemas. Raises `HaveTooLargeError`."""
    held = have_codec.within(
        peer.store.log_heights(schema_ids), have_codec.room(peer.settings.max_sent_bytes)
    )
    if held is None:
        raise _too_large(schema_ids)
    return Have(session_id, held)


def _too_large(schema_ids: Sequence[str]) -> HaveTooLargeError:
    return HaveTooLargeError(
        f"the heights of all logs of {', '.join(schema_ids)} do not fit one message: "
        "speak set reconciliation on both sides, or allow larger messages"
    )


class WaitingRequests:
    """Requests that one remote sent too early, in order of arrival. Times are in milliseconds."""

    __slots__ = ("_max_schema_ids", "_wait_ms", "_waiting")

    def __init__(self, wait_ms: int, max_schema_ids: int) -> None:
        self._wait_ms = wait_ms
        self._max_schema_ids = max_schema_ids
        self._waiting: dict[int, tuple[SyncRequest, int]] = {}

    def hold(self, request: SyncRequest, now: int) -> bool:
        """Let a request wait; returns False if it is to be ignored.

        A request for set reconciliation is ignored, because its opening follows it and would have to be kept,
        too. Raises `DuplicateSessionError` if a request with its id or its schemas is already waiting.
        """
        if not self._wait_ms or request.mode != MODE_LOG_HEIGHT:
            return False
        held = [other for other, _ in self._waiting.values()]
        if any(o.session_id == request.session_id or o.schema_ids == request.schema_ids for o in held):
            raise DuplicateSessionError("a request under the same id or about the same schemas is waiting")
        named = len(request.schema_ids) + sum(len(other.schema_ids) for other in held)
        if len(held) >= MAX_WAITING or named > self._max_schema_ids:
            return False
        self._waiting[request.session_id] = (request, now + self._wait_ms)
        return True

    def drop(self, session_id: int) -> bool:
        """Remove a request that the remote withdraws; returns False if none waits under this id."""
        return self._waiting.pop(session_id, None) is not None

    def take_announced(self, announced: frozenset[str]) -> list[SyncRequest]:
        """Remove and return the requests whose schemas are all announced now."""
        return self._take([i for i, (r, _) in self._waiting.items() if announced.issuperset(r.schema_ids)])

    def take_late(self, now: int) -> list[SyncRequest]:
        """Remove and return the requests that have waited too long."""
        return self._take([i for i, (_, due) in self._waiting.items() if now >= due])

    def _take(self, session_ids: list[int]) -> list[SyncRequest]:
        return [self._waiting.pop(session_id)[0] for session_id in session_ids]
