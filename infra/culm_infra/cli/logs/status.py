"""``culm logs status``: the logs that each peer holds, or one peer, and how far it is behind."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from culm_infra.cli.kit.options import KafkaFlags
from culm_infra.cli.kit.output import NOTHING_REPLICATED, Results
from culm_infra.columns import Columns, of
from culm_infra.errors import InfraError
from culm_topics.logs.version_vectors import Vectors, read_vectors
from culm_topics.p2panda.announcements import PeerAnnouncement, read_announcements
from culm_topics.records import HEIGHTS_PEER_ID

_SHOWN_SCHEMAS = 3


def _short_offer(offer: dict[str, Any]) -> str:
    modes, lifts = (", ".join(map(str, offer[name])) for name in ("modes", "lifts"))
    return f"mode {modes}; {lifts}" if lifts else f"mode {modes}"


def short_id(identifier: bytes) -> str:
    """Return the first 16 hex digits of an id, enough for people and for `culm logs status`."""
    return identifier.hex()[:16] + "…"


def _short_schemas(schema_ids: tuple[str, ...]) -> str:
    shown = ", ".join(name if len(name) <= 24 else f"{name[:23]}…" for name in schema_ids[:_SHOWN_SCHEMAS])
    more = len(schema_ids) - _SHOWN_SCHEMAS
    return f"{shown} and {more} more" if more > 0 else shown


PEERS: Final[Columns] = {
    "peer": of("peer", short_id),
    "announces": of("schemas", _short_schemas),
    "offers": of("offers", _short_offer),
    "logs held": "logs",
    "logs behind": "logs_behind",
    "entries behind": "entries_behind",
}
VECTOR: Final[Columns] = {
    "author": of("public_key", short_id),
    "log": "log_id",
    "holds": "seq_num",
    "height": "height",
    "behind": "behind",
}


def status(
    peer: Annotated[
        str | None,
        typer.Argument(metavar="PEER_ID", help="Show this peer log by log: its id in hex, or how it starts."),
    ] = None,
    *,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """List every known peer: its schemas, the logs it holds, and how many of their entries it is missing.

    With PEER_ID, show the version vector of that peer: its sequence number in each log, the log's height, and
    the difference. A peer may offer modes (0 log heights, 1 set reconciliation) and lifts, the functions by
    which it makes fingerprints. Logs of which a peer holds nothing are not counted, since it may not want
    them.

    Example: `culm logs status`; `culm logs status 2f8e50c2`
    """
    reached = kafka.settings()
    vectors = read_vectors(reached)
    if peer is not None:
        _show_vector(vectors, peer, results)
    else:
        _show_peers(vectors, read_announcements(reached), results)


def _show_peers(vectors: Vectors, announced: dict[bytes, PeerAnnouncement], results: Results) -> None:
    heights = vectors.heights
    rows: list[dict[str, Any]] = []
    for peer_id in sorted((vectors.by_peer.keys() | announced.keys()) - {HEIGHTS_PEER_ID}):
        vector = vectors.by_peer.get(peer_id, {})
        behind = [max(heights.get(log, 0) - seq_num, 0) for log, seq_num in vector.items()]
        announcement = announced.get(peer_id)
        rows.append(
            {
                "peer": peer_id,
                "schemas": None if announcement is None else announcement.schema_ids,
                "offers": None if announcement is None else announcement.offered,
                "logs": len(vector),
                "logs_behind": sum(1 for entries in behind if entries),
                "entries_behind": sum(behind),
            }
        )
    results.passed_over(vectors.passed_over)
    results.say(f"{len(heights)} replicated logs, {sum(heights.values())} entries")
    if not heights:
        results.say(NOTHING_REPLICATED)
    results.rows(rows, PEERS)
    if rows:
        results.next("culm logs status PEER_ID")


def _show_vector(vectors: Vectors, peer: str, results: Results) -> None:
    heights = vectors.heights
    peer_id = find_peer(peer.lower(), sorted(vectors.by_peer.keys() - {HEIGHTS_PEER_ID}))
    rows: list[dict[str, Any]] = [
        {
            "peer": peer_id,
            "public_key": public_key,
            "log_id": log_id,
            "seq_num": seq_num,
            "height": heights.get((public_key, log_id), 0),
            "behind": max(heights.get((public_key, log_id), 0) - seq_num, 0),
        }
        for (public_key, log_id), seq_num in sorted(vectors.by_peer[peer_id].items())
    ]
    results.passed_over(vectors.passed_over)
    results.say(f"peer {peer_id.hex()}")
    results.rows(rows, VECTOR)


def find_peer(start: str, peer_ids: list[bytes]) -> bytes:
    """Return the only peer whose id in hex starts with `start`. Raises `InfraError` if there is none or
    several.
    """
    matching = [peer_id for peer_id in peer_ids if peer_id.hex().startswith(start)]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise InfraError(f"no peer's id starts with {start!r}", hint="`culm logs status` lists known peers")
    raise InfraError(f"{len(matching)} peers' ids start with {start!r}", hint="give more of the id")
