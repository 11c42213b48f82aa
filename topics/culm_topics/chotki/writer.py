"""`ChotkiWriter`: classes and objects made and changed by a program (reference 9.2 rule 10, 10.2).

from culm_topics.chotki.changes import Edit, NewClass, NewObject
from culm_topics.chotki.writer import ChotkiWriter

with ChotkiWriter("127.0.0.1:9092", owner="importer") as writer:
    writer.write(NewClass({"Name": "S", "Age": "I"}, name="person"))
    [ann] = writer.write(NewObject("person", {"Name": "Ann", "Age": 42}))
    writer.write(Edit(ann, {"Age": 43}))
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException

from culm_models.chotki.errors import ChotkiError
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import LivePacket, read_live
from culm_models.chotki.packets.packet import parse
from culm_topics.chotki.changes import Change
from culm_topics.chotki.errors import SourceTaken, WriterAhead, WriterBroken
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.packet_maker import PacketMaker
from culm_topics.chotki.records import PacketRecord, RecordOrigin, SourceRecord, source_key, source_partition
from culm_topics.chotki.sources import FREE, SOURCES_TOPIC, SourceFollower
from culm_topics.chotki.state_reader import StateReader
from culm_topics.closing import Closing
from culm_topics.errors import KafkaFailure, RecordError
from culm_topics.kafka import clients
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.readers.partitions import TopicPartitions, read_until

PACKETS_TOPIC: Final = "chotki.packets"
MAX_UNMERGED_PACKETS: Final = 100_000
_POLL_SECONDS: Final = 0.1
_READ_WAIT_SECONDS: Final = 5.0
_ANY_PARTITION: Final = -1
_logger = logging.getLogger(__name__)


class ChotkiWriter(Closing):
    """Writes changes of one source to Kafka. The constructor claims the source and reads the present state.

    `kafka` is bootstrap servers, or settings; without it, the cluster that the environment names. `owner`
    names the owner of the source, for people and for the next run: the same owner continues with the same
    source, unless a `source` is named. If it has none, a free source is allocated. `take_over` claims a
    source whose last writer was killed and so never freed it; if that writer still runs, its next write is
    refused.

    `write` returns when Kafka has acknowledged every packet: the ID of a new class or object, the ID of the
    packet for other changes, or None if a change has no effect. Changes of a call and calls of a writer keep
    their order; later ones know the results of earlier ones, whether the job has merged them yet or not. If a
    change is refused, the whole call is undone. `write_async` does this on an event loop; several calls may
    wait at once. A packet that is not acknowledged within `timeout_seconds` breaks the writer
    (`WriterBroken`): only the next writer knows the contents of the topic.

    The state is on disk, in a temporary file or, to be reused by the next writer, in `state_dir` (one for
    each program). Packets that the job has not merged yet are in memory, some kilobytes each. At more than
    `max_unmerged_packets` the writer waits `timeout_seconds` for the job, then it raises `WriterAhead`.

    Raises `SourceTaken`, `SourceRetired`, the errors of `PacketMaker.make`, `WriterAhead`, `WriterBroken`,
    `TopicMissing`, `KafkaFailure`, `StateFileFailed`. For several threads.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        owner: str,
        source: int | None = None,
        take_over: bool = False,
        state_dir: Path | str | None = None,
        timeout_seconds: float = 30.0,
        max_unmerged_packets: int = MAX_UNMERGED_PACKETS,
    ) -> None:
        self._settings = named_kafka(kafka)
        self._owner = owner
        self._run = secrets.token_bytes(len(FREE))
        self._timeout_seconds = timeout_seconds
        self._max_unmerged_packets = max_unmerged_packets
        self._lock = threading.RLock()
        self._turn = asyncio.Lock()
        self._broken: WriterBroken | None = None
        self._closed = False
        with contextlib.ExitStack() as opened:
            self._state = opened.enter_context(
                StateReader(self._settings, state_dir=None if state_dir is None else Path(state_dir))
            )
            self._sources = SourceFollower(self._settings)
            opened.callback(self._sources.close)
            self._producer = clients.producer(
                self._settings, defaults={"message.timeout.ms": str(int(timeout_seconds * 1000))}
            )
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._serve, name="chotki-acknowledge", daemon=True)
            self._thread.start()
            opened.callback(self._stop_serving)
            self._source = self._claim(source, take_over=take_over)
            # From here on a failure frees the source again.
            opened.callback(self._free)
            self._maker, self._partition = self._restore()
            self._opened = opened.pop_all()
        self._bringer = RecordOrigin(
            hashlib.sha256(b"culm chotki writer" + source_key(self._source) + owner.encode()).digest(), 0, 0
        )

    @property
    def source(self) -> int:
        """The source of the packets."""
        return self._source

    @property
    def last_id(self) -> Id | None:
        """The last ID that was issued, with the number of its last field; None before the first packet."""
        last = self._maker.last
        return None if last is None else Id(self._source, last)

    @property
    def objects(self) -> Objects:
        """Classes, objects and names as this writer knows them: merged, or written by itself."""
        return self._maker.objects

    def write(self, *changes: Change) -> list[Id | None]:
        """Make these changes, in order and all or none; returns when Kafka has stored them."""
        return self.submit(changes).result()

    async def write_async(self, *changes: Change) -> list[Id | None]:
        """Run `write` without blocking the event loop. Calls take effect in the order in which they begin."""
        async with self._turn:
            handed_over = await asyncio.to_thread(self.submit, changes)
        return await asyncio.wrap_future(handed_over)

    def submit(self, changes: Sequence[Change]) -> Future[list[Id | None]]:
        """Hand the packets of these changes to Kafka's client.

        The future returns the IDs once all packets are stored.
        """
        with self._lock:
            self._check()
            self._refresh(0)
            self._await_the_job()
            made = self._maker.make(changes)
            ids = [own_packet.id for own_packet in made]
            packets = [packet for own_packet in made for packet in own_packet.packets]
            waiting = _Acknowledgement(ids, len(packets), self._break)
            topic = self._settings.topic(PACKETS_TOPIC)
            for packet in packets:
                value = PacketRecord(self._bringer, packet.after, packet.packet).encode()
                self._produce(topic, source_key(self._source), value, self._partition, waiting.delivered)
            return waiting.future

    def close(self) -> None:
        """Wait for pending packets, free the source, close the connections."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._opened.close()

    @classmethod
    async def open_async(
        cls,
        kafka: KafkaSettings | str | None = None,
        *,
        owner: str,
        source: int | None = None,
        take_over: bool = False,
        state_dir: Path | str | None = None,
        timeout_seconds: float = 30.0,
        max_unmerged_packets: int = MAX_UNMERGED_PACKETS,
    ) -> Self:
        """Run the constructor without blocking the event loop."""
        return await asyncio.to_thread(
            cls,
            kafka,
            owner=owner,
            source=source,
            take_over=take_over,
            state_dir=state_dir,
            timeout_seconds=timeout_seconds,
            max_unmerged_packets=max_unmerged_packets,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    # The source.

    def _claim(self, source: int | None, *, take_over: bool) -> int:
        for _ in self._state.catch_up(_READ_WAIT_SECONDS):
            continue
        seen = {src for vector in self._state.state.blocks.values() for src in vector}
        src = self._sources.table.choose(
            source, self._owner, seen | self._state.state.vector.keys(), take_over=take_over
        )
        holder = self._sources.table.holders.get(src)
        if holder is not None and holder.run != FREE:
            self._write_claim(src, FREE)
        self._write_claim(src, self._run)
        winner = self._sources.catch_up()[src]
        if winner.run != self._run:
            # In a compacted topic the last record of a key stays: write the valid one last.
            self._write_claim(src, winner.run, winner)
            raise SourceTaken(f"source {src:x} was claimed by another writer at the same moment")
        return src

    def _free(self) -> None:
        """Free the source if this run still holds it; otherwise it can be taken over."""
        try:
            self._producer.flush(self._timeout_seconds)
            if self._sources.catch_up()[self._source].run == self._run:
                self._write_claim(self._source, FREE)
        except KafkaFailure as error:
            _logger.warning("source %x was not freed: %s", self._source, error)

    def _write_claim(self, src: int, run: bytes, record: SourceRecord | None = None) -> None:
        claim = record or SourceRecord(self._owner, run, "allocated", time.time_ns() // 1_000_000)
        done = _Acknowledgement([], 1, lambda _: None)
        topic = self._settings.topic(SOURCES_TOPIC)
        self._produce(topic, source_key(src), claim.encode(), None, done.delivered)
        try:
            done.future.result()
        except WriterBroken as error:
            raise KafkaFailure(f"{topic}: {error}") from error

    # The position of the source.

    def _restore(self) -> tuple[PacketMaker, int]:
        """Return a maker that continues after everything the state and the topic have of the source."""
        state = self._state.state
        last, after = state.latest_of(self._source), state.vector.get(self._source, 0)
        earlier: list[LivePacket] = []
        with TopicPartitions(self._settings, PACKETS_TOPIC) as reader:
            partition = source_partition(self._source, reader.count())
            low, end = reader.range_of(partition)
            reader.assign({partition: max(low, min(state.packets.get(partition, 0), end))})
            for message in read_until(reader, {partition: end}):
                if message.key != source_key(self._source):
                    continue
                try:
                    record = PacketRecord.decode(message.value)
                    packet = parse(record.packet, compat=record.compat)
                    live = read_live(packet, record.packet, compat=record.compat)
                except (RecordError, ChotkiError):
                    continue  # The job reports it.
                earlier.append(live)
                pro = live.entry.pro
                last = max(last, pro)
                # A packet that builds on a missing one counts with the first new packet, and not before.
                if record.after <= after:
                    after = max(after, pro)
        maker = PacketMaker(self._source, state.table, last=last or None, after=after, name=self._owner)
        for live in earlier:
            maker.learn(live)
        return maker, partition

    def _refresh(self, timeout_seconds: float) -> None:
        """Apply what the job has merged meanwhile; waits at most `timeout_seconds` for an epoch."""
        epochs = self._state.poll(timeout_seconds)
        while epochs:
            self._maker.settle(self._state.state.vector.get(self._source, 0))
            epochs = self._state.poll(0)

    def _await_the_job(self) -> None:
        deadline_s = time.monotonic() + self._timeout_seconds
        while self._maker.waiting >= self._max_unmerged_packets:
            if time.monotonic() > deadline_s:
                raise WriterAhead(
                    f"{self._maker.waiting} packets of source {self._source:x} are not merged yet"
                )
            self._refresh(_POLL_SECONDS)

    # Kafka.

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closed:
            raise WriterBroken("the writer is closed", hint="open a new one")
        if self._sources.poll()[self._source].run != self._run:
            raise SourceTaken(
                f"source {self._source:x} was taken over by another writer",
                hint="this one writes no more; see who runs as its owner",
            )

    def _produce(self, topic: str, key: bytes, value: bytes, partition: int | None, delivered: Any) -> None:
        deadline_s = time.monotonic() + self._timeout_seconds
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    _ANY_PARTITION if partition is None else partition,
                    on_delivery=delivered,
                )
                return
            except BufferError:
                if time.monotonic() > deadline_s:
                    self._break("Kafka's client takes no more records")
                    raise self._broken or KafkaFailure(topic) from None
                time.sleep(_POLL_SECONDS)
            except KafkaException as error:
                self._break(str(error.args[0].str()))
                raise KafkaFailure(f"{topic}: {error.args[0].str()}") from error

    def _break(self, reason: str) -> None:
        if self._broken is None:
            self._broken = WriterBroken(f"Kafka did not acknowledge a packet of {self._source:x}: {reason}")

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(_POLL_SECONDS)

    def _stop_serving(self) -> None:
        self._producer.flush(self._timeout_seconds)
        self._stopping.set()
        self._thread.join()


class _Acknowledgement:
    """Counts delivery reports, on the thread that serves them."""

    def __init__(self, ids: list[Id | None], records: int, failed: Any) -> None:
        self.future: Future[list[Id | None]] = Future()
        self._ids = ids
        self._left = records
        self._failed = failed
        self._error: KafkaError | None = None
        # Records that were handed over cannot be withdrawn, so cancelling a waiter changes nothing.
        self.future.set_running_or_notify_cancel()
        if not records:
            self.future.set_result(ids)

    def delivered(self, error: KafkaError | None, _message: Any) -> None:
        self._left -= 1
        if error is not None:
            self._failed(error.str())
            self._error = self._error or error
        if self._left:
            return
        if self._error is None:
            self.future.set_result(self._ids)
        else:
            self.future.set_exception(
                WriterBroken(f"Kafka did not acknowledge a packet: {self._error.str()}")
            )
