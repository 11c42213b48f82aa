"""`SdsStore`: retrieval of messages from `sds.messages`, by hint and by id.

Requested messages are sorted by offset, and near ones are read together. Each record is checked against the
hint or the index, and against the id. A hint of this deployment that is wrong (the topic was created again,
or the hint is forged) costs one read; then the index is used.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.closing import Closing
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.at_offsets import SINGLE_RECORDS, runs
from culm_topics.readers.batch import TopicMessage
from culm_topics.readers.partitions import TopicPartitions, read_until
from culm_topics.sds.index import SdsIndex
from culm_topics.sds.keys import channel_key, shard_of
from culm_topics.sds.records import MAX_FETCH_ENTRIES, SdsMessageRecord, check_of
from culm_topics.sds.retrieval_hints import StoreHint

NEAR_RECORDS: Final = 64
"""Positions with fewer records between them are read together: skipping records is cheaper than a request."""
MAX_FETCH_BYTES: Final = 16 * 1024 * 1024
"""Limit of the bytes of messages from one retrieval; the rest must be requested again."""
_SILENCE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message from the store.

    `hint` is this deployment's (17 bytes); `foreign_hint` another transport's.
    """

    profile: Profile
    message_id: str
    sender_id: str
    lamport_timestamp: int
    wire: bytes
    hint: bytes
    foreign_hint: bytes | None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Result of one retrieval.

    `found` has the messages by id. `unknown` are not in the store, or not yet in the index. `left` were not
    looked up, because `MAX_FETCH_BYTES` was reached: request them again.
    """

    found: Mapping[str, StoredMessage]
    unknown: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class SdsStore(Closing):
    """Reads the store of one deployment. For several threads, one at a time.

    Without an `index` only this deployment's hints are followed. Raises `TopicMissing`, and `KafkaFailure` if
    the broker fails or stops sending.
    """

    def __init__(self, settings: KafkaSettings, index: SdsIndex | None) -> None:
        self._index = index
        self._reader = TopicPartitions(settings, "sds.messages", defaults=SINGLE_RECORDS)
        self._partitions: int | None = None
        self._lock = threading.Lock()

    def retrieve(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Retrieved:
        """Return the messages of a channel that `entries` name, at most `MAX_FETCH_ENTRIES`.

        Uses the hint if it is this deployment's, and the index otherwise or if the hint is wrong. Raises
        `RecordError` for more than `MAX_FETCH_ENTRIES`.
        """
        require(len(entries) <= MAX_FETCH_ENTRIES, RecordError, f"more than {MAX_FETCH_ENTRIES} ids")
        with self._lock:
            return self._retrieve(channel_id, entries)

    def by_ids(self, channel_id: str, message_ids: Iterable[str]) -> Retrieved:
        """Return the messages with these ids."""
        return self.retrieve(channel_id, [HistoryEntry(message_id) for message_id in message_ids])

    def by_hint(self, channel_id: str, hint: StoreHint) -> StoredMessage | None:
        """Return the message at a hint's position, whatever its id; None if there is none."""
        with self._lock:
            if hint.partition != shard_of(channel_id, self._partition_count()):
                return None
            messages = self._read(channel_id, {hint.offset: {hint}}, hint.partition, MAX_FETCH_BYTES)
        return next(iter(messages.values()), None)

    def close(self) -> None:
        """Close the connection, but not the index."""
        self._reader.close()

    def _retrieve(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Retrieved:
        wanted = dict.fromkeys(entry.message_id for entry in entries)
        hints = {entry.message_id: StoreHint.parse(entry.retrieval_hint) for entry in entries}
        messages: dict[str, StoredMessage] = {}
        hinted = {message_id: hint for message_id, hint in hints.items() if hint is not None}
        free_bytes = self._gather(channel_id, hinted, messages, MAX_FETCH_BYTES)
        rest = [message_id for message_id in wanted if message_id not in messages]
        indexed: dict[str, StoreHint] = {}
        if rest and self._index is not None:
            indexed = {
                message_id: StoreHint.of_index(row)
                for message_id, row in self._index.find(channel_id, rest).items()
            }
            free_bytes = self._gather(channel_id, indexed, messages, free_bytes)
        rest = [message_id for message_id in rest if message_id not in messages]
        if free_bytes <= 0:
            return Retrieved(messages, left=tuple(rest))
        return Retrieved(messages, unknown=tuple(rest))

    def _gather(
        self,
        channel_id: str,
        places: Mapping[str, StoreHint],
        messages: dict[str, StoredMessage],
        free_bytes: int,
    ) -> int:
        """Add the valid messages at these positions to `messages`. Returns the bytes that are still free."""
        partitions = self._partition_count()
        ours = shard_of(channel_id, partitions)
        by_offset: dict[int, set[StoreHint]] = {}
        for hint in places.values():
            if hint.partition == ours:
                by_offset.setdefault(hint.offset, set()).add(hint)
        read = self._read(channel_id, by_offset, ours, free_bytes) if by_offset and free_bytes > 0 else {}
        for message_id, hint in places.items():
            message = read.get(hint.offset)
            if message is not None and message.message_id == message_id and message_id not in messages:
                messages[message_id] = message
                free_bytes -= len(message.wire)
        return free_bytes

    def _partition_count(self) -> int:
        if self._partitions is None:
            self._partitions = self._reader.count()
        return self._partitions

    def _read(
        self, channel_id: str, places: Mapping[int, Collection[StoreHint]], partition: int, free_bytes: int
    ) -> dict[int, StoredMessage]:
        """Return the messages of the channel at these offsets that match their check bytes, by offset."""
        low, high = self._reader.range_of(partition)
        messages: dict[int, StoredMessage] = {}
        key = channel_key(channel_id)
        for run in runs((offset for offset in places if low <= offset < high), NEAR_RECORDS):
            for record in self._records(partition, run):
                if record.key != key:
                    continue
                message = _message(record, places[record.offset])
                if message is not None:
                    messages[record.offset] = message
                    free_bytes -= len(message.wire)
            if free_bytes <= 0:
                break
        self._reader.assign({})
        return messages

    def _records(self, partition: int, run: list[int]) -> Iterator[TopicMessage]:
        """Yield the records at these ascending offsets."""
        self._reader.assign({partition: run[0]})
        wanted, ends = frozenset(run), {partition: run[-1] + 1}
        for record in read_until(
            self._reader, ends, silence_seconds=_SILENCE_SECONDS, max_records=NEAR_RECORDS
        ):
            if record.offset in wanted:
                yield record


def _message(message: TopicMessage, hints: Collection[StoreHint]) -> StoredMessage | None:
    try:
        record = SdsMessageRecord.decode(message.value)
    except RecordError:
        return None
    check = check_of(record.wire)
    if all(hint.check != check for hint in hints):
        return None
    return StoredMessage(
        record.profile,
        record.message_id,
        record.sender_id,
        record.lamport_timestamp,
        record.wire,
        StoreHint(message.partition, message.offset, check).encode(),
        record.retrieval_hint,
    )
