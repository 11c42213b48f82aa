"""Producing to Kafka from an event loop: many records in, one wait until all of them are acknowledged.

One thread serves librdkafka's delivery reports. Records in flight are bounded in number and bytes: a slow
Kafka makes `send` wait, the wait stops the reader of a peer, and QUIC's credit stops the peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, cast

from confluent_kafka import KafkaError, KafkaException, Producer

from culm_connectors.kafka.errors import ProduceFailed
from culm_connectors.metric_families import latency_histogram

_POLL_S = 0.1
_CLOSE_TIMEOUT_S = 10.0
_CHUNK_RECORDS = 1_000
_ANY_PARTITION = -1


class ProducerRecord(TypedDict):
    """One record to produce; the broker sets its time. Without a value it is a tombstone for its key.

    It is a message of `Producer.produce_batch`, which takes it as it is.
    """

    key: bytes
    value: bytes | None
    _error: NotRequired[KafkaError]
    """Set by the client on a record that it refused before it was queued."""


def record_size(record: ProducerRecord) -> int:
    """Return the size of key and value, in bytes."""
    return len(record["key"]) + len(record["value"] or b"")


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    """Limits on records and bytes in flight; a chunk that exceeds them is sent alone."""

    max_records: int = 50_000
    max_bytes: int = 32 * 1024**2


class _Acknowledgement:
    """Counts the delivery reports of one call, on the polling thread, and resolves on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, records: int, release: Callable[[], None]) -> None:
        self.future: asyncio.Future[int] = loop.create_future()
        self._loop = loop
        self._release = release
        self._remaining = records
        self._error: KafkaError | None = None
        self._end = 0

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and self._error is None:
            self._error = error
        self._remaining -= 1
        if self._remaining == 0:
            if self._error is None:
                self._end = message.offset() + 1
            # A report that comes after the loop has ended has no receiver.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._release()
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._end)
        else:
            self.future.set_exception(ProduceFailed(f"Kafka refused a record: {self._error.str()}"))


class BatchProducer:
    """Wraps one idempotent `confluent_kafka.Producer`; use it as an asynchronous context manager."""

    def __init__(self, producer: Producer, limits: ProducerLimits | None = None) -> None:
        self._producer = producer
        self._limits = limits or ProducerLimits()
        self._records = 0
        self._bytes = 0
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="kafka-acknowledge", daemon=True)
        self.latency = latency_histogram(
            "culm_produce_latency_seconds", "From handing records to Kafka's client to their acknowledgement."
        )
        self.produced: Counter[str] = Counter()
        """Records that were acknowledged, by topic."""
        self.acknowledged_at_s: float | None = None
        """Wall-clock time of the latest acknowledgement."""
        self._progress_s = time.monotonic()
        """Time of the last acknowledgement, or of the first hand-over after nothing was in flight."""

    async def __aenter__(self) -> BatchProducer:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._producer.flush, _CLOSE_TIMEOUT_S)
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    @property
    def in_flight(self) -> tuple[int, int]:
        """Records and bytes that wait for Kafka's acknowledgement."""
        return self._records, self._bytes

    @property
    def stalled_s(self) -> float:
        """Seconds for which records in flight have had no acknowledgement; 0 if none are in flight."""
        return time.monotonic() - self._progress_s if self._records else 0.0

    async def send(self, topic: str, records: list[ProducerRecord], partition: int | None = None) -> int:
        """Produce records in order and wait until every one is acknowledged.

        Without a `partition` the key's hash chooses it, as with every client. Returns the offset behind the
        last of them in its partition, 0 without records. Raises `ProduceFailed` when any was not
        acknowledged; the others may have been stored.
        """
        if not records:
            return 0
        started = time.monotonic()
        chunks = [records[start : start + _CHUNK_RECORDS] for start in range(0, len(records), _CHUNK_RECORDS)]
        acknowledgements = [await self._send_chunk(topic, chunk, partition) for chunk in chunks]
        ends = await asyncio.gather(*acknowledgements)
        self.latency.observe(time.monotonic() - started)
        self.produced[topic] += len(records)
        return ends[-1]

    async def _send_chunk(
        self, topic: str, records: list[ProducerRecord], partition: int | None
    ) -> asyncio.Future[int]:
        count = len(records)
        size = sum(map(record_size, records))
        async with self._turn:  # served in order, so waiting for capacity does not reorder records
            while not self._fits(count, size):
                self._room.clear()
                await self._room.wait()
            if not self._records:
                self._progress_s = time.monotonic()
            self._records += count
            self._bytes += size
            return self._hand_over(topic, records, partition, lambda: self._release(count, size))

    def _hand_over(
        self,
        topic: str,
        records: list[ProducerRecord],
        partition: int | None,
        release: Callable[[], None],
    ) -> asyncio.Future[int]:
        acknowledgement = _Acknowledgement(asyncio.get_running_loop(), len(records), release)
        try:
            # A partition in the messages themselves is ignored by this client.
            self._producer.produce_batch(
                topic,
                cast("list[dict[str, Any]]", records),
                partition=_ANY_PARTITION if partition is None else partition,
                on_delivery=acknowledgement.delivered,
            )
        except (BufferError, KafkaException) as error:
            release()
            raise ProduceFailed(f"Kafka's client took no record: {error}") from error
        for record in records:
            # Refused before it was queued: no delivery report will come for it.
            if "_error" in record:
                acknowledgement.delivered(record.pop("_error"), None)
        return acknowledgement.future

    def _fits(self, records: int, size: int) -> bool:
        return not self._records or (
            self._records + records <= self._limits.max_records
            and self._bytes + size <= self._limits.max_bytes
        )

    def _release(self, records: int, size: int) -> None:
        self._records -= records
        self._bytes -= size
        self._progress_s, self.acknowledged_at_s = time.monotonic(), time.time()
        self._room.set()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_S)
