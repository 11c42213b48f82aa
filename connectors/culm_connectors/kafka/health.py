"""Kafka's health: a background thread asks the brokers for the ends of topics.

A Kafka client retries silently and remembers the ends that it saw last: to the client, a cluster without a
quorum looks like an idle one. So a thread asks every few seconds for the end of every partition, which the
partition's leader must answer. An end without a recent answer is unknown, never zero.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from culm_topics.kafka.cluster import await_brokers
from culm_topics.readers.batch import Partition

logger = logging.getLogger(__name__)

INTERVAL_S = 5.0
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of partitions, and the wall-clock time of the answer."""

    offsets: Mapping[Partition, int]
    answered_at_s: float


class KafkaHealth:
    """Asks for the ends of all partitions of `topics()` (full names) while the context lasts.

    Before the first answer Kafka counts as away. The methods may be called from any thread.
    """

    def __init__(
        self,
        admin: AdminClient,
        topics: Callable[[], Iterable[str]],
        *,
        interval_s: float = INTERVAL_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._admin = admin
        self._topics = topics
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._ends: Ends | None = None
        self._answered_s = time.monotonic()
        self._reason: str | None = "it was not asked yet"
        self._is_logged = False
        """True if the last logged line reports that Kafka does not answer."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-health", daemon=True)

    def __enter__(self) -> KafkaHealth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Do not wait for a pending answer: it may take as long as the broker is away.
        self._stopping.set()

    @property
    def away(self) -> str | None:
        """Text that says how long Kafka has not answered, and why; None while it answers."""
        with self._lock:
            silent_s = time.monotonic() - self._answered_s
            if self._reason is not None:
                return f"Kafka has not answered for {silent_s:.0f} s: {self._reason}"
            if silent_s > self._interval_s + 2 * self._timeout_s:
                return f"Kafka has not answered for {silent_s:.0f} s: the question is still under way"
        return None

    @property
    def ends(self) -> Ends | None:
        """The ends of the partitions; None while Kafka does not answer."""
        return None if self.away is not None else self._ends

    def ask(self) -> None:
        """Ask once; blocks until the answer, or for twice the timeout."""
        try:
            offsets = self._ask_ends()
        except Exception as error:
            # Catch everything: if the thread ended here, Kafka would be reported as away forever.
            self._note(_words(error))
        else:
            with self._lock:
                self._ends = Ends(offsets, time.time())
            self._note(None)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.ask()
            self._stopping.wait(self._interval_s)

    def _note(self, reason: str | None) -> None:
        now_s = time.monotonic()
        with self._lock:
            self._reason = reason
            away_s = now_s - self._answered_s
            if reason is None:
                self._answered_s = now_s
        if self._stopping.is_set() or self._is_logged == (reason is not None):
            return
        self._is_logged = reason is not None
        if reason is not None:
            logger.warning("Kafka does not answer: %s", reason)
        else:
            logger.info("Kafka answers again, after %.0f s", away_s)

    def _ask_ends(self) -> dict[Partition, int]:
        await_brokers(self._admin, self._timeout_s)
        known = self._admin.list_topics(timeout=self._timeout_s).topics
        partitions = [
            TopicPartition(name, number)
            for name in sorted(frozenset(self._topics()) & known.keys())
            for number in known[name].partitions
        ]
        if not partitions:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        answers: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(
            dict.fromkeys(partitions, latest), request_timeout=self._timeout_s
        )
        return {
            (partition.topic, partition.partition): int(answer.result(self._timeout_s).offset)
            for partition, answer in answers.items()
        }


def _words(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return str(error.args[0].str())
    return str(error) or "no answer in time"
