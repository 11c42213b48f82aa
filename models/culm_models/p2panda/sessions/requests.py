"""The sessions that serve a local request, split so that each `Have` fits in a message ("replication", 2).

A `Have` names every log that its sender holds of the session's schemas, in one message. If it would be too
large, set reconciliation is used, or several sessions about fewer schemas. A `Have` that is too large for a
single schema is never sent in part: the remote would regard the rest as missing, and send it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from culm_models.p2panda.errors import HaveTooLargeError
from culm_models.p2panda.sessions.auto_sync import AutoSync
from culm_models.p2panda.sessions.table import PeerState
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire import have_codec
from culm_models.p2panda.wire.messages import (
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
    Have,
    Offer,
)


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
    parts = split(peer.store, wanted, peer.settings.max_sent_bytes)
    requests = [(mode, part) for part in parts.parts]
    if parts.parts == (wanted,):
        return requests
    if auto.can_have(MODE_SET_RECONCILIATION, offer):
        return [(MODE_SET_RECONCILIATION, wanted)]
    if parts.too_large:
        if auto.can_try(MODE_SET_RECONCILIATION, offer):
            return [*requests, (MODE_SET_RECONCILIATION, parts.too_large)]
        error = _too_large(parts.too_large)
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
    limit = have_codec.capacity(max_message_bytes)
    if have_codec.size_within(store.log_heights(schema_ids), limit) is not None:
        return SchemaParts((tuple(schema_ids),))
    parts: list[list[str]] = []
    too_large: list[str] = []
    taken = limit
    for schema in schema_ids:
        size = have_codec.size_within(store.log_heights((schema,)), limit)
        if size is None:
            too_large.append(schema)
            continue
        if taken + size > limit or not parts:
            parts.append([])
            taken = 0
        parts[-1].append(schema)
        taken += size
    return SchemaParts(tuple(map(tuple, parts)), tuple(too_large))


def have(peer: PeerState, session_id: int, schema_ids: Sequence[str]) -> Have:
    """Return our heights of these schemas. Raises `HaveTooLargeError`."""
    log_heights = have_codec.within(
        peer.store.log_heights(schema_ids), have_codec.capacity(peer.settings.max_sent_bytes)
    )
    if log_heights is None:
        raise _too_large(schema_ids)
    return Have(session_id, log_heights)


def _too_large(schema_ids: Sequence[str]) -> HaveTooLargeError:
    return HaveTooLargeError(
        f"the heights of all logs of {', '.join(schema_ids)} do not fit one message: "
        "speak set reconciliation on both sides, or allow larger messages"
    )
