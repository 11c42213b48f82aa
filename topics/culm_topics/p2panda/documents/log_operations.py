"""Reads operations from `logs`: single ones at known places, and those of a view by a scan.

A view in the past consists of operations that no record of `documents` names. They are found by scanning
`logs` from its beginning. The scan remembers what it has passed (`operation_places`), so that all views
together cost one pass over `logs`; each call reads a limited number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from culm_models.errors import CulmError
from culm_models.p2panda.documents.document import AuthoredOperation, DocumentView
from culm_models.p2panda.documents.errors import UnknownViewError
from culm_models.p2panda.documents.views import MAX_OPERATIONS, read_view
from culm_models.p2panda.operations.identifiers import DocumentViewId, OperationId
from culm_models.p2panda.operations.operation import decode_operation
from culm_models.p2panda.operations.reader import Value
from culm_topics.closing import Closing
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import ask_origin
from culm_topics.logs.records import LogRecord
from culm_topics.p2panda.documents.errors import ScanLimitReached, ValueMissing, ViewTooLarge
from culm_topics.p2panda.documents.operation_places import FoundOperation, OperationPlaces, Place, ViewWalk
from culm_topics.p2panda.documents.record import DocumentField
from culm_topics.readers.at_offsets import SINGLE_RECORDS, Absent, read_at
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_through
from culm_topics.records.keys import LOG_KEY_SIZE, PUBLIC_KEY_SIZE

LOGS_TOPIC: Final = "logs"
MAX_BYTES: Final = 64 * 1024 * 1024
"""Largest number of bytes of operations that are read at once, for one view or one document."""
MAX_DEFINITION_OPERATIONS: Final = 256
MAX_DEFINITION_BYTES: Final = 4 * 1024 * 1024
"""These limit views that are read because a document names them as its schema: anybody may send one."""
DEFAULT_MAX_SCAN_RECORDS: Final = 1_000_000
_READING_ROUNDS: Final = 16
"""Rounds in which known places are read before a scan is used: each is a request to the broker."""
_SHOWN: Final = 3


class _Limits(NamedTuple):
    """Largest number of operations, and of their bytes, that are read for one view."""

    operations: int
    bytes: int


class LogOperations(Closing):
    """The operations in `logs`. Connects when it is first used. Not for several threads.

    Raises `TopicMissing`, and `KafkaFailure` if the broker fails.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        known: OperationPlaces,
        *,
        max_scan_records: int = DEFAULT_MAX_SCAN_RECORDS,
    ) -> None:
        self._settings = settings
        self._known = known
        self._max_scan_records = max_scan_records
        self._reader: TopicPartitions | None = None
        self._scanner: TopicPartitions | None = None
        self.passed_over = PassedOver(LOGS_TOPIC)
        """Malformed records that scans have passed."""

    def values(self, fields: Iterable[DocumentField]) -> dict[str, Value]:
        """Return the values of fields by name, read from `logs`.

        Raises `ValueMissing`, and `ViewTooLarge` if their operations have more than `MAX_BYTES`.
        """
        wanted = list(fields)
        places = {field.operation_id: (field.partition, field.offset) for field in wanted}
        operations, absent = self._read(places, MAX_BYTES)
        values: dict[str, Value] = {}
        for field in wanted:
            added = operations.get(field.operation_id)
            if added is None:
                raise ValueMissing(f"{field.name[:100]!r}: {absent[field.operation_id]}")
            in_operation = added.operation.fields or {}
            if field.name not in in_operation:
                raise ValueMissing(
                    f"the operation {field.operation_id.hex()} does not set {field.name[:100]!r}"
                )
            values[field.name] = in_operation[field.name]
        return values

    def view(self, view_id: DocumentViewId, *, scan: bool) -> DocumentView:
        """Return the view at these heads.

        Without `scan`, uses only operations whose places are known, and few requests. Raises
        `UnknownViewError` with the ids of operations that are not here, `ValueMissing`, `ViewTooLarge`, and
        `ScanLimitReached`.
        """
        limits = _Limits(MAX_OPERATIONS, MAX_BYTES)
        walk = self._follow(view_id, limits)
        if scan and not walk.is_complete:
            walk = self._scan(view_id, walk, limits)
        return self._reduce(view_id, walk, limits)

    def definition(self, view_id: DocumentViewId) -> DocumentView:
        """Return the view of a small document, as `view` does without `scan`, and with the same errors.

        Raises `ViewTooLarge` for more than `MAX_DEFINITION_OPERATIONS` or `MAX_DEFINITION_BYTES`.
        """
        limits = _Limits(MAX_DEFINITION_OPERATIONS, MAX_DEFINITION_BYTES)
        return self._reduce(view_id, self._follow(view_id, limits), limits)

    def close(self) -> None:
        """Close the connections."""
        for reader in (self._reader, self._scanner):
            if reader is not None:
                reader.close()

    def _reduce(self, view_id: DocumentViewId, walk: ViewWalk, limits: _Limits) -> DocumentView:
        """Read the operations of a view that was followed, and return the view."""
        if not walk.is_complete:
            lacking = sorted(walk.missing | walk.unread.keys())
            few = ", ".join(operation_id.hex() for operation_id in lacking[:_SHOWN])
            raise UnknownViewError(f"of the operations of the view, {len(lacking)} are not in `logs`: {few}")
        operations, absent = self._read(walk.places, limits.bytes)
        if absent:
            raise ValueMissing(f"an operation of the view: {next(iter(absent.values()))}")
        view = read_view(view_id, operations.get)
        if view is None:
            raise UnknownViewError("these operations are not one document of one schema")
        return view

    def _walk(self, view_id: DocumentViewId, limits: _Limits) -> ViewWalk:
        walk = self._known.walk(view_id, limits.operations)
        if walk.is_cut:
            raise ViewTooLarge(f"the view has more than {limits.operations:,} operations")
        return walk

    def _follow(self, view_id: DocumentViewId, limits: _Limits) -> ViewWalk:
        """Follow a view by reading operations at known places."""
        walk = self._walk(view_id, limits)
        rounds = 0
        while walk.unread and not walk.missing and rounds < _READING_ROUNDS:
            rounds += 1
            operations, _ = self._read(walk.unread, limits.bytes)
            self._known.add_found(
                FoundOperation(added.id, *walk.unread[added.id], added.operation.previous or ())
                for added in operations.values()
            )
            walk = self._walk(view_id, limits)
        return walk

    def _scan(self, view_id: DocumentViewId, walk: ViewWalk, limits: _Limits) -> ViewWalk:
        """Continue the last scan of `logs` until the view is complete, or to the present end."""
        scanner = self._open_scanner()
        scanned = self._known.scanned()
        ranges = scanner.ranges()
        starts = {
            partition: min(max(first, scanned.get(partition, first)), end)
            for partition, (first, end) in ranges.items()
        }
        ends = {partition: end for partition, (_, end) in ranges.items()}
        scanner.assign(starts)
        read = 0
        for messages in read_through(scanner, ends):
            found = [each for each in map(self._found, messages) if each is not None]
            self._known.add_found(found, scanner.positions)
            read += len(messages)
            if not (walk.missing | walk.unread.keys()).isdisjoint(each.id for each in found):
                walk = self._walk(view_id, limits)
                if walk.is_complete:
                    break
            if read >= self._max_scan_records and not scanner.has_reached(ends):
                scanner.assign({})
                raise ScanLimitReached(
                    f"{read:,} records of {LOGS_TOPIC} were read without finding all operations of the view"
                )
        scanner.assign({})
        return walk

    def _found(self, message: TopicMessage) -> FoundOperation | None:
        """Return the operation in a record; None for a bare log's entry or a malformed record."""
        try:
            record = LogRecord.decode(message.value)
            if not record.schema_id:
                return None
            previous = decode_operation(record.operation).previous
        except CulmError as error:
            self.passed_over.add(message, error)
            return None
        return FoundOperation(record.entry_hash, message.partition, message.offset, previous or ())

    def _read(
        self, places: Mapping[OperationId, Place], max_bytes: int
    ) -> tuple[dict[OperationId, AuthoredOperation], dict[OperationId, str]]:
        """Return the operations at these places, and by id why others are absent; forgets their places."""
        reader = self._open_reader()
        ids = {place: operation_id for operation_id, place in places.items()}
        wanted: dict[int, list[int]] = {}
        for partition, offset in ids:
            wanted.setdefault(partition, []).append(offset)
        operations: dict[OperationId, AuthoredOperation] = {}
        absent: dict[OperationId, str] = {}
        size = 0
        for message in read_at(reader, wanted):
            operation_id = ids[message.partition, message.offset]
            if isinstance(message, Absent):
                absent[operation_id] = str(message)
                continue
            size += len(message.value)
            if size > max_bytes:
                raise ViewTooLarge(f"these operations have more than {max_bytes:,} bytes")
            try:
                record = LogRecord.decode(message.value)
                if record.entry_hash != operation_id or len(message.key) != LOG_KEY_SIZE:
                    absent[operation_id] = "another record is at its place"
                    continue
                operation = decode_operation(record.operation)
            except CulmError as error:
                absent[operation_id] = f"the record at its place is malformed: {error}"
                continue
            operations[operation_id] = AuthoredOperation(
                operation_id, message.key[:PUBLIC_KEY_SIZE], operation
            )
        reader.assign({})
        for operation_id, place in places.items():
            if operation_id not in operations and operation_id not in absent:
                absent[operation_id] = f"another operation is at its place, {place[0]}:{place[1]}"
        self._known.forget(absent)
        return operations, absent

    def _open_reader(self) -> TopicPartitions:
        if self._reader is None:
            self._begin()
            self._reader = TopicPartitions(self._settings, LOGS_TOPIC, defaults=SINGLE_RECORDS)
        return self._reader

    def _open_scanner(self) -> TopicPartitions:
        if self._scanner is None:
            self._begin()
            self._scanner = TopicPartitions(self._settings, LOGS_TOPIC)
        return self._scanner

    def _begin(self) -> None:
        admin = clients.admin(self._settings)
        self._known.begin(ask_origin(admin, [self._settings.topic(LOGS_TOPIC)]).encode())
