"""Tables of DAG replication: published ids with their tips, and spaces with their heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from culm_infra.console.tables import (
    ConsoleTable,
    Detail,
    DetailField,
    DetailSection,
    NotFound,
    TableContext,
    TablePage,
    TableRow,
    TableSpec,
)
from culm_infra.console.tables.follower import FollowedForm, combined
from culm_infra.console.tables.paging import TableSources, columns, fields_of, hex_search, key_bytes, page_of
from culm_infra.console.tables.scan import newest, oldest
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import SPACE_SIZE
from culm_topics.dag.orders import ORDER_TOPIC, KnownOrder
from culm_topics.dag.records import (
    FirstLinks,
    HeadsRecord,
    OrderRecord,
    PublishedRecord,
    decode_publish_record,
    id_of_key,
)
from culm_topics.errors import RecordError
from culm_topics.readers.batch import TopicMessage
from culm_topics.records import key_partition

_SHOWN_ORDER: Final = 100
_SHOWN_PUBLISHES: Final = 50
_SEVERITY: Final = {
    PublishState.COMPLETE: 0,
    PublishState.PARTIAL: 1,
    PublishState.OPAQUE: 1,
    PublishState.PENDING: 1,
    PublishState.BROKEN: 2,
    PublishState.REVOKED: 2,
}


def tables(context: TableContext) -> Sequence[ConsoleTable]:
    """Open the tables."""
    sources = TableSources.of(context)
    return IdsTable(sources), SpacesTable(sources)


def _check_published(key: bytes, value: bytes) -> None:
    id_of_key("dag.published", key)
    if value:
        PublishedRecord.decode(value)


def _check_heads(key: bytes, value: bytes) -> None:
    id_of_key("dag.heads", key)
    if value:
        HeadsRecord.decode(value)


PUBLISHED: Final = FollowedForm("dag.published", _check_published)
HEADS: Final = FollowedForm("dag.heads", _check_heads)


class IdsTable:
    """Ids under which something is published, in the order of the ids."""

    spec = TableSpec(
        "dag-ids",
        "dag",
        "Published ids",
        "Every id with its tip (the last publish in its order) and the latest publish that is complete.",
        columns(
            "id id Id",
            "tip id Tip",
            "state state State of the tip",
            "count count Publishes",
            "complete id Complete publish",
            "root id Complete root",
            "other_heads count Other heads",
            "revoked count Revoked",
        ),
        "start of an id",
    )

    def __init__(self, sources: TableSources) -> None:
        self._sources = sources
        self._topic = sources.follow(PUBLISHED)
        self._heads = sources.follow(HEADS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return ids after the cursor."""
        digits = hex_search(search, "an id")
        note = "nothing is published yet"
        return page_of(self._topic, b"", _id_row, cursor, limit, digits=digits, if_empty=note)

    def detail(self, key: str) -> Detail:
        """Return an id: its tip, its order, its newest publishes, and the heads of its space."""
        id = key_bytes(key, SPACE_SIZE)
        extents = [topic.extent() for topic in (self._topic, self._heads)]
        value = self._topic.records.get(id)
        if value is None:
            raise NotFound(f"nothing is published under {key[:80]}")
        record = PublishedRecord.decode(value)
        kafka = self._sources.kafka

        def partition(count: int) -> int:
            return key_partition(id, count)

        with self._sources.scans.open() as scan:
            publishes = newest(scan, kafka, "dag.publishes", partition, id, _SHOWN_PUBLISHES)
            changes = oldest(scan, kafka, ORDER_TOPIC, partition, id)
        order, skipped = KnownOrder(), 0
        for message in changes.messages:
            try:
                order.take(OrderRecord.decode(message.value))
            except RecordError:
                skipped += 1
        links = list(enumerate(order.links, order.start))[-_SHOWN_ORDER:]
        notes = [
            changes.note,
            f"{skipped:,} malformed records are left out" if skipped else None,
            f"the last {len(links)} of {order.length:,}" if order.length > len(links) else None,
        ]
        heads = self._heads.records.get(id)
        return Detail(
            f"id {id.hex()[:16]}…",
            [
                *fields_of(self.spec, _id_row(id, value).cells),
                *_complete_fields(record),
            ],
            (
                DetailSection(
                    "Order, the last publish first",
                    columns("position count Position", "publish id Publish"),
                    [[position, link.text] for position, link in reversed(links)],
                    "; ".join(note for note in notes if note) or None,
                ),
                DetailSection(
                    "Newest publishes",
                    columns(
                        "time time Stored",
                        "publish id Publish",
                        "prior id Prior",
                        "peer id Peer",
                        "bytes bytes Size",
                    ),
                    [_publish_cells(message) for message in publishes.messages],
                    publishes.note,
                ),
                *(_heads_sections(HeadsRecord.decode(heads)) if heads else ()),
                DetailSection(
                    "Other heads", columns("cid id CID"), _links(record.other_heads), combined(extents).note
                ),
                DetailSection("Revoked publishes", columns("cid id CID"), _links(record.revoked)),
            ),
            scan.result(),
        )


class SpacesTable:
    """Spaces of nodes, in the order of their keys."""

    spec = TableSpec(
        "dag-spaces",
        "dag",
        "Spaces",
        "Every space with the heads of its DAG, its shards, and what is missing.",
        columns(
            "space id Space",
            "heads list Heads",
            "shards count Shards",
            "missing_nodes count Missing nodes",
            "missing_shards count Missing shards",
            "opaque_shards count Opaque shards",
            "state state State",
        ),
        "start of a space's key",
    )

    def __init__(self, sources: TableSources) -> None:
        self._scans = sources.scans
        self._topic = sources.follow(HEADS)

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        """Return spaces after the cursor."""
        digits = hex_search(search, "a space's key")
        note = "no space has nodes yet"
        return page_of(self._topic, b"", _space_row, cursor, limit, digits=digits, if_empty=note)

    def detail(self, key: str) -> Detail:
        """Return a space: its heads, and what is missing."""
        space = key_bytes(key, SPACE_SIZE)
        extent = self._topic.extent()
        value = self._topic.records.get(space)
        if value is None:
            raise NotFound(f"there is no space {key[:80]}")
        return Detail(
            f"space {space.hex()[:16]}…",
            [
                *fields_of(self.spec, _space_row(space, value).cells),
                DetailField("Notes", combined([extent]).note),
            ],
            _heads_sections(HeadsRecord.decode(value)),
            self._scans.without_reading(),
        )


def _id_row(id: bytes, value: bytes) -> TableRow:
    record = PublishedRecord.decode(value)
    complete = record.complete
    cells: dict[str, Any] = {
        "id": id.hex(),
        "tip": record.tip.text,
        "state": record.state.value,
        "count": record.count,
        "complete": None if complete is None else complete.cid.text,
        "root": None if complete is None else complete.link.text,
        "other_heads": record.other_heads.total,
        "revoked": record.revoked.total,
    }
    return TableRow(id.hex(), cells, _SEVERITY[record.state])


def _complete_fields(record: PublishedRecord) -> list[DetailField]:
    complete = record.complete
    if complete is None:
        return []
    shard = None if complete.shard is None else complete.shard.text
    return [DetailField("Origin", complete.origin.text, "id"), DetailField("Shard", shard, "id")]


def _publish_cells(message: TopicMessage) -> list[Any]:
    try:
        _, record = decode_publish_record(message.key, message.value)
    except RecordError as error:
        return [message.timestamp_ms, f"malformed: {error}", None, None, len(message.value)]
    prior = None if record.prior is None else record.prior.text
    peer = None if record.peer is None else record.peer.hex()
    return [message.timestamp_ms, record.cid.text, prior, peer, len(record.data)]


def _space_row(space: bytes, value: bytes) -> TableRow:
    record = HeadsRecord.decode(value)
    is_missing = bool(record.missing_nodes.total or record.missing_shards.total)
    cells = {
        "space": space.hex(),
        "heads": [link.text for link in record.heads.links[:3]],
        "shards": record.shard_count,
        "missing_nodes": record.missing_nodes.total,
        "missing_shards": record.missing_shards.total,
        "opaque_shards": record.opaque_shards.total,
        "state": "incomplete" if is_missing else "complete",
    }
    return TableRow(space.hex(), cells, 1 if is_missing else 0)


def _heads_sections(record: HeadsRecord) -> tuple[DetailSection, ...]:
    described = {
        "Heads": record.heads,
        "Missing nodes": record.missing_nodes,
        "Missing shards": record.missing_shards,
        "Opaque shards": record.opaque_shards,
    }
    return tuple(
        DetailSection(
            title,
            columns("cid id CID"),
            _links(links),
            f"the first {len(links.links)} of {links.total:,}" if links.total > len(links.links) else None,
        )
        for title, links in described.items()
    )


def _links(links: FirstLinks) -> list[list[str]]:
    return [[link.text] for link in links.links]
