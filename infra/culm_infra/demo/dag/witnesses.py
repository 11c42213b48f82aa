"""What each replica says of an id: its own folder, or the HTTP door of an edge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from culm_connectors.dag.store.folder import DagFolder
from culm_infra.demo.dag.stage import DagEdgeProcess
from culm_infra.demo.dag.writer import DagWriter

_SHORT = 8


@dataclass(frozen=True, slots=True)
class Witness:
    """One replica's word. CIDs are texts; None where it is not asked for that."""

    name: str
    place: str
    order: tuple[str, ...]
    tip: str | None
    heads: tuple[str, ...] | None
    complete: str | None

    @property
    def order_digest(self) -> str:
        """The order in a few digits."""
        return short_digest(self.order)

    @property
    def heads_digest(self) -> str | None:
        """The heads in a few digits."""
        return None if self.heads is None else short_digest(self.heads)


def short_digest(texts: Iterable[str]) -> str:
    """The first digits of the SHA-256 of some texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_SHORT]


async def ask_writer(writer: DagWriter, place: str) -> Witness:
    """What the folder of a replica says."""

    def step(folder: DagFolder) -> Witness:
        published = folder.published(writer.space)
        latest = published.latest_complete
        return Witness(
            writer.name,
            place,
            tuple(one.cid.text for one in published.order),
            published.tip.cid.text if published.tip is not None else None,
            tuple(cid.text for cid in folder.dag_heads(writer.space)),
            None if latest is None else latest.cid.text,
        )

    return await writer.peer.work(step)


async def ask_edge(edge: DagEdgeProcess, id: bytes) -> Witness:
    """What the HTTP door of an edge says."""
    said = (await edge.door.get(f"/published/{id.hex()}")).json()
    log = (await edge.door.get(f"/published/{id.hex()}/log")).json()["log"]
    tip, latest = said["tip"], said["latest_complete"]
    return Witness(
        f"edge {edge.name}",
        "its HTTP door",
        tuple(one["cid"] for one in log),
        tip and tip["cid"],
        None,
        latest and latest["cid"],
    )


def agree(witnesses: Iterable[Witness]) -> bool:
    """Whether all say one order, one tip, one latest complete publish, and one set of heads."""
    found = list(witnesses)
    heads = {one.heads for one in found if one.heads is not None}
    return len({(one.order, one.tip, one.complete) for one in found}) == 1 and len(heads) <= 1
