"""The job `documents`, Kafka to Kafka, against a passthrough of the same records in one Spark session."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.harness import BenchSettings, Ratio, exponent, middle_pair, say
from bench.job_queries import passthrough, spark_session, steady_rate, take_all
from bench.producing import flush
from bench.rig import Rig
from culm_models.bamboo.hashes import YASMF
from culm_models.p2panda.operations.operation import encode_operation
from culm_streaming.p2panda_documents.document_state import DocumentState
from culm_streaming.p2panda_documents.job import DocumentsSettings
from culm_streaming.p2panda_documents.reduction import Reduction, new_document
from culm_streaming.p2panda_documents.rows import OperationRow
from culm_streaming.p2panda_documents.waiting_operations import ArrivedOperation
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.kafka.clients import KafkaSettings, producer
from culm_topics.logs.records import LogRecord
from culm_topics.records import log_key

_GOAL: Final = 0.25
_GROWTH_GOAL: Final = 1.05
_BATCHES: Final = 3
_ENTRY_BYTES: Final = 160
_AUTHORS: Final = 2
_AT_ONCE: Final = 64
"""Documents that are written at the same time."""
_SCHEMA: Final = "venues_0020" + "ab" * 32
_LENGTHS: Final = (20, 400)
"""Operations of a document."""
_LATE: Final = 100_000
"""Operations of the document to which a late update of its create comes."""


def run(settings: BenchSettings) -> list[Ratio]:
    """Run available-now queries of three micro-batches; the first warms up and is not counted."""
    batch, rounds = (10_000, 1) if settings.quick else (200_000, 3)
    rates: dict[int, tuple[list[float], list[float]]] = {length: ([], []) for length in _LENGTHS}
    with Rig() as rig:
        elsewhere = rig.topics("elsewhere.")
        sources = {length: rig.topics(f"of{length}.") for length in _LENGTHS}
        for length, kafka in sources.items():
            say(f"  making records of documents of {length} operations")
            _produce(kafka, batch * _BATCHES, length)
        with spark_session(rig) as session:
            for number in range(rounds):
                for length, kafka in sources.items():
                    checkpoints = str(rig.folder / "checkpoints" / f"{length}-{number}")
                    kept, passed = rates[length]
                    copied = passthrough(
                        session, kafka, elsewhere, {"logs": batch}, "logs", f"{checkpoints}-copy"
                    )
                    passed.append(copied)
                    job_settings = DocumentsSettings(max_offsets_per_trigger=batch)
                    kept.append(steady_rate(take_all(session, kafka, "documents", job_settings, checkpoints)))
                    say(f"  {length} operations each: {kept[-1]:,.0f} rows/s against {passed[-1]:,.0f}")
    ratios = [
        Ratio(
            "documents",
            f"documents job, {length} operations each",
            *middle_pair(kept, passed),
            "operations/s",
            "Kafka to Kafka passthrough, same session",
            goal=_GOAL,
            details={
                "rows": batch * (_BATCHES - 1),
                "authors": _AUTHORS,
                "cores": os.cpu_count() or 1,
                "rounds": kept,
                "limit_rounds": passed,
            },
        )
        for length, (kept, passed) in rates.items()
    ]
    return [*ratios, *_fold(settings)]


def _fold(settings: BenchSettings) -> list[Ratio]:
    """Measure the reduction alone: growth with a document's length, and the late update."""
    sizes = (500, 5_000) if settings.quick else (1_000, 10_000, _LATE)
    taken = [min(_Document(random.Random(n)).seconds_for(size) for n in range(3)) for size in sizes]
    document = _Document(random.Random(3))
    document.seconds_for(sizes[-1])
    ordinary = document.seconds_for(1)
    worst = document.seconds_for_late_update()
    say(f"  a late update of the create among {sizes[-1]:,} operations: {worst:.2f} s")
    return [
        Ratio(
            "documents",
            f"a document of {sizes[0]:,} to {sizes[-1]:,} operations, exponent of processor time",
            exponent(sizes, taken),
            1,
            "",
            "linear",
            goal=_GROWTH_GOAL,
            higher_is_better=False,
            details={"sizes": sizes, "seconds": taken},
        ),
        Ratio(
            "documents",
            f"a late update of the create, {sizes[-1]:,} operations",
            worst,
            ordinary,
            "s",
            "an operation that follows all heads",
            goal=None,
            higher_is_better=False,
        ),
    ]


@dataclass(slots=True)
class _Document:
    """A document in memory, which one operation after the other extends."""

    source: random.Random
    store: MemoryState = field(default_factory=MemoryState)
    blob: bytes = b""
    ids: list[bytes] = field(default_factory=list)

    def seconds_for(self, count: int, *, batch: int = 50) -> float:
        """Return the processor time of `count` operations that follow all heads, in micro-batches."""
        arrivals = [self._arrival(self.ids[-1:]) for _ in range(count)]
        started = time.process_time()
        for start in range(0, count, batch):
            self._take(arrivals[start : start + batch])
        return time.process_time() - started

    def seconds_for_late_update(self) -> float:
        """Return the processor time of an update that follows the create alone."""
        arrival = self._arrival(self.ids[:1])
        started = time.process_time()
        self._take([arrival])
        return time.process_time() - started

    def _arrival(self, previous: list[bytes]) -> ArrivedOperation:
        operation_id = YASMF.prefix + self.source.randbytes(32)
        self.ids.append(operation_id)
        fields = {"seats": b"\x18\x40", "name": b"\x65culms"}
        return ArrivedOperation(
            bytes(40), OperationRow(operation_id, tuple(previous), fields, 0, len(self.ids))
        )

    def _take(self, arrivals: list[ArrivedOperation]) -> None:
        batch = [(_SCHEMA, arrival) for arrival in arrivals]
        # The state goes through its bytes, as it does between two micro-batches.
        state = DocumentState.decode(self.blob) if self.blob else new_document(self.ids[0], batch)
        reduction = Reduction(self.store, state, max_waiting=1_000)
        reduction.add(batch)
        self.blob = reduction.state.encode()


def _produce(kafka: KafkaSettings, count: int, length: int) -> None:
    """Produce records as the job `logs` writes them: documents whose authors take turns."""
    source = random.Random(length)
    entry = source.randbytes(_ENTRY_BYTES)
    client, topic = producer(kafka, bulk=True), kafka.topic("logs")
    open_documents = [_records(source, length, entry) for _ in range(_AT_ONCE)]
    for _ in range(count):
        turn = source.randrange(_AT_ONCE)
        pair = next(open_documents[turn], None)
        if pair is None:
            open_documents[turn] = _records(source, length, entry)
            pair = next(open_documents[turn])
        key, value = pair
        client.produce(topic, value, key)
        client.poll(0)
    flush(client)


def _records(source: random.Random, length: int, entry: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a document, each of whose operations follows the one before."""
    logs = [log_key(source.randbytes(32), 0) for _ in range(_AUTHORS)]
    before = b""
    for number in range(length):
        operation = encode_operation(
            "update" if number else "create",
            _SCHEMA,
            previous=(before,) if number else None,
            fields={"name": f"culm {number}", "seats": number},
        )
        before = YASMF.prefix + source.randbytes(32)
        record = LogRecord(1 + number // _AUTHORS, entry, operation, before, _SCHEMA)
        yield logs[number % _AUTHORS], record.encode()
