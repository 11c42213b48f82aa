"""Two peers at two edges edit one document before either knows of the other's edit; then one merges."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from culm_infra.columns import Columns, Row
from culm_infra.demo.p2panda import actors as demo_actors
from culm_infra.demo.p2panda.actors import PeerActor
from culm_infra.demo.p2panda.documents import DocumentAudit, held_documents
from culm_infra.demo.p2panda.plan import DemoLogWriter
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.operations.identifiers import DocumentId
from culm_models.p2panda.operations.reader import Value
from culm_topics.p2panda.documents.record import DOCUMENTS_TOPIC, DocumentRecord

_CREATED: Final[dict[str, Value]] = {"title": "The Reed", "seats": 40, "open": True}
_WESTERN: Final[dict[str, Value]] = {"title": "The Reed Bed", "seats": 60}
_EASTERN: Final[dict[str, Value]] = {"title": "The Culm", "open": False}
_MERGED: Final[dict[str, Value]] = {"note": "merged"}
_DIGEST_LENGTH: Final = 12

EDITED_DOCUMENT: Final[Columns] = {
    "after": "after",
    "reduced by": "holder",
    "operations": "operations",
    "heads": "heads",
    "title": "title",
    "SHA-256": "digest",
}


@dataclass(slots=True)
class ConcurrentEdits:
    """The shared document: `writers` are the authors of its two logs, `actors` the peers that publish them.

    `wanted` receives the logs with their heights as they are published. `unmerged` has the document as each
    peer reduced it before the merge.
    """

    actors: tuple[PeerActor, PeerActor]
    writers: tuple[DemoLogWriter, DemoLogWriter]
    wanted: dict[LogKey, tuple[str, int]]
    document_id: DocumentId = b""
    unmerged: dict[str, DocumentRecord] = field(default_factory=dict)

    async def play(self, replicated: Callable[[], Awaitable[None]]) -> None:
        """Publish all operations; `replicated` waits until all peers hold what was published."""
        west, east = self.writers
        await self._publish(0, _CREATED)
        self.document_id = west.latest
        await replicated()
        created = (self.document_id,)
        await asyncio.gather(self._publish(0, _WESTERN, created), self._publish(1, _EASTERN, created))
        await replicated()
        for actor in self.actors:
            records = held_documents(actor, [(west.key_pair.public_key, west.log_id)])
            self.unmerged[actor.plan.name] = records[self.document_id]
        await self._publish(0, _MERGED, (west.latest, east.latest))
        await replicated()

    async def _publish(self, number: int, fields: dict[str, Value], previous: tuple[bytes, ...] = ()) -> None:
        writer = self.writers[number]
        await demo_actors.add(self.actors[number], [writer.append(fields, previous)])
        self.wanted[writer.key_pair.public_key, writer.log_id] = (writer.schema_id, len(writer.entries))

    @property
    def differs(self) -> bool:
        """Whether the peers reduced the unmerged document to different bytes."""
        return len({record.encode() for record in self.unmerged.values()}) > 1

    def rows(self, audit: DocumentAudit) -> list[Row]:
        """Return the document as each peer and the topic had it, before and after the merge."""
        merged = {
            holder: records[self.document_id]
            for holder, records in (*audit.held.items(), (f"topic {DOCUMENTS_TOPIC}", audit.topic))
            if self.document_id in records
        }
        return [*_rows("both edits", self.unmerged), *_rows("the merge", merged)]


def _rows(after: str, records: Mapping[str, DocumentRecord]) -> Iterator[Row]:
    for holder, record in records.items():
        values = {stored.name: stored.read() for stored in record.fields}
        yield {
            "after": after,
            "holder": holder,
            "operations": record.version,
            "heads": len(record.view_id),
            **values,
            "digest": hashlib.sha256(record.encode()).hexdigest()[:_DIGEST_LENGTH],
        }
