"""Watches Kafka while jobs run: whether it answers, where its topics end, and that they stay the same topics.

A separate thread asks every few seconds, since an answer may take as long as the broker is unreachable. Spark
itself reports none of this: it retries silently, and computes lag against the last known end.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from culm_streaming.progress import Place
from culm_topics.errors import KafkaFailure, OriginChanged, TopicMissing, TopicsError
from culm_topics.kafka.origin import Origin, ask_origin

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 5.0
_TIMEOUT_SECONDS: Final = 10.0
REMEDY: Final = (
    "move the checkpoints of the jobs away, so that they read their topics from the start "
    "(docs/operating.md, Topics created again)"
)


class KafkaWatch:
    """The known state of Kafka; every method may be called from any thread.

    `known` is the origin of all topics; `read` has the full names of the topics whose end offsets are needed.
    `publish` is called after each answer, in the watching thread.
    """

    def __init__(
        self,
        admin: AdminClient,
        known: Origin,
        read: Collection[str],
        publish: Callable[[], None] = lambda: None,
    ) -> None:
        self._admin = admin
        self._known = known
        self._read = frozenset(read)
        self._publish = publish
        self._lock = Lock()
        self._stop = Event()
        self._away_since_s: float | None = None
        self._away_reason = ""
        self._starts: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._changed: TopicsError | None = None
        self._missing_before = False
        self._thread = Thread(target=self._watch, name="kafka-watch", daemon=True)

    def start(self) -> None:
        """Start the watching thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; does not wait for an answer to a request in progress."""
        self._stop.set()

    @property
    def is_up(self) -> bool:
        """Whether Kafka answered the latest request."""
        with self._lock:
            return self._away_since_s is None

    def away(self) -> str | None:
        """Return for how long Kafka has not answered, and why; None while it does."""
        with self._lock:
            if self._away_since_s is None:
                return None
            seconds = time.monotonic() - self._away_since_s
            return f"Kafka has not answered for {seconds:.0f} s: {self._away_reason}"

    def changed(self) -> TopicsError | None:
        """Return `OriginChanged` or `TopicMissing` once the topics are no longer the same; None before."""
        with self._lock:
            return self._changed

    def lag(self, positions: Mapping[Place, int], topics: Collection[str]) -> dict[Place, int]:
        """Return the lag of a reader at `positions`, in records, for each partition of these topics.

        A partition without a position is read from its start.
        """
        with self._lock:
            return {
                partition: max(end - positions.get(partition, self._starts.get(partition, 0)), 0)
                for partition, end in self._ends.items()
                if partition[0] in topics
            }

    def removed(self, topics: Collection[str]) -> dict[Place, int]:
        """Return the number of removed records of these topics by partition, by the latest answer."""
        with self._lock:
            return {
                partition: start
                for partition, start in self._starts.items()
                if start and partition[0] in topics
            }

    def ask(self) -> None:
        """Ask once and store the answer; blocks for up to half a minute if Kafka is unreachable."""
        try:
            origin = ask_origin(self._admin, self._known.topic_ids, timeout_seconds=_TIMEOUT_SECONDS)
            self._known.check(origin, what="what the jobs have read and written", remedy=REMEDY)
            starts, ends = self._ask_offsets()
        except TopicMissing as error:
            # A broker that was just restarted may not know every topic for a moment.
            with self._lock:
                if self._missing_before:
                    self._changed = error
                self._missing_before = True
        except OriginChanged as error:
            with self._lock:
                self._changed = error
        except KafkaFailure as error:
            self._take_absence(str(error))
        else:
            self._take_answer(starts, ends)

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            try:
                self.ask()
                if self.is_up:
                    self._publish()
            except Exception as error:
                # Any error: without this thread, the last answer would stay valid forever.
                self._take_absence(f"{type(error).__name__}: {error}")

    def _take_absence(self, reason: str) -> None:
        with self._lock:
            is_new = self._away_since_s is None
            if is_new:
                self._away_since_s = time.monotonic()
            self._away_reason = reason
        if is_new and not self._stop.is_set():
            logger.warning("Kafka does not answer: %s", reason)

    def _take_answer(self, starts: dict[Place, int], ends: dict[Place, int]) -> None:
        with self._lock:
            away_since_s, self._away_since_s = self._away_since_s, None
            self._starts, self._ends = starts, ends
            self._missing_before = False
        if away_since_s is not None:
            logger.info("Kafka answers again", extra={"away_s": round(time.monotonic() - away_since_s, 1)})

    def _ask_offsets(self) -> tuple[dict[Place, int], dict[Place, int]]:
        try:
            topics = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
            places = [
                TopicPartition(name, number)
                for name in sorted(self._read & topics.keys())
                for number in topics[name].partitions
            ]
            if not places:
                return {}, {}
            earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
            return self._offsets(places, earliest), self._offsets(places, latest)
        except KafkaException as error:
            raise KafkaFailure(f"end offsets of topics: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise KafkaFailure("end offsets of topics: no answer in time") from error

    def _offsets(self, places: list[TopicPartition], which: OffsetSpec) -> dict[Place, int]:
        answers: dict[TopicPartition, Future[Any]] = self._admin.list_offsets(
            dict.fromkeys(places, which), request_timeout=_TIMEOUT_SECONDS
        )
        return {
            (partition.topic, partition.partition): int(answer.result(_TIMEOUT_SECONDS).offset)
            for partition, answer in answers.items()
        }
