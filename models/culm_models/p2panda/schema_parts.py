"""Schemas that go into sessions of log height mode together: those whose logs fit one `Have`.

A `Have` names every log that its sender holds of the session's schemas, and is one message. Where it would
be too large, several sessions over fewer schemas serve. One that is too large for a single schema is never
told in part: the remote would take the rest for missing, and send it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from culm_models.p2panda import have_codec
from culm_models.p2panda.store import LogStore


@dataclass(frozen=True, slots=True)
class SchemaParts:
    """`parts` to have sessions about, each in the order given; `too_large` are in none of them."""

    parts: tuple[tuple[str, ...], ...]
    too_large: tuple[str, ...] = ()


def split(store: LogStore, schema_ids: Sequence[str], max_message_bytes: int) -> SchemaParts:
    """As few parts as neighbours allow."""
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
