"""`ChotkiConsumer`: Chotki's objects as typed dictionaries, and what changes of them (reference 10.9).

from culm_topics.chotki.consumer import ChotkiConsumer

with ChotkiConsumer("127.0.0.1:9092") as consumer:
    consumer.load()
    for person in consumer.objects("Person"):
        print(person.id, person["Name"])
    for change in consumer:
        print(change)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from culm_models.chotki.ids import Id
from culm_topics.chotki.errors import NameUnknown
from culm_topics.chotki.objects import ChotkiClass, ChotkiObject, Objects, Place, place_of
from culm_topics.chotki.state_reader import AppliedEpoch, StateReader
from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.consumer import TopicConsumer

_LOAD_SECONDS: Final = 10.0
_PAGE: Final = 1_000
_READY: Final = 100


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that changed in an epoch, as it stands then; `fields`: the names of those that changed.

    `is_new`: the object itself is among what changed. Several changes of one epoch are one.
    """

    epoch: int
    object: ChotkiObject
    fields: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class ClassChange:
    """A class that is new or has other fields; its objects do not change by that."""

    epoch: int
    class_: ChotkiClass


Change = ObjectChange | ClassChange


class ChotkiConsumer(TopicConsumer[Change]):
    """Reads the merged state from Kafka; an iterator and an asynchronous iterator of changes.

    `kafka`: bootstrap servers, or settings; left out, the cluster that the environment names (see
    `culm_topics.kafka.local`). `classes` (names or IDs) restricts what is handed out as changed, not what can
    be asked for.

    What counts is on disk, some 100 bytes a field beside its value, and memory is bounded: 32 MiB of it are
    cached. With a `state_dir` it stays there, and the next consumer reads from Kafka only what has come
    since; one program at a time uses it. Without one it is a temporary file, and every consumer reads the
    topic from its beginning.

    Changes come epoch by epoch: the classes of an epoch before its objects, each as it stands then or later.
    Vectors never run ahead of values. Without more, everything that there is comes first, as new; after
    `load` only what comes after it. `since` (an earlier `positions()`) leaves out what was written before:
    whoever goes on from there has seen everything at least once. `origin`, taken with those positions, makes
    sure that they belong to this topic. `stop_at_end` ends the iteration behind what was there at the start.

    Records that are none are passed over and counted (`bad_records`, `passed_over`); with `strict` they are a
    `RecordError`. Errors: `OriginChanged`, `TopicRecreated`, `TopicMissing`, `OffsetOutOfRange`,
    `KafkaFailure`, `StateFileFailed`. Not for use by several threads or tasks at once, but for `stop()`.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str | None = None,
        *,
        classes: Iterable[Id | str] | None = None,
        since: Mapping[int, int] | None = None,
        origin: Origin | None = None,
        state_dir: Path | str | None = None,
        stop_at_end: bool = False,
        topic_check_seconds: float = 30.0,
        strict: bool = False,
    ) -> None:
        super().__init__()
        settings = named_kafka(kafka)
        self._classes = None if classes is None else tuple(classes)
        self._reader = StateReader(
            settings,
            state_dir=None if state_dir is None else Path(state_dir),
            topic_check_seconds=topic_check_seconds,
        )
        if origin is not None:
            try:
                origin.check(
                    self._reader.origin,
                    what="the positions to read changes from",
                    remedy="read everything again, without `since`",
                )
            except BaseException:
                self._reader.close()
                raise
        self._view = Objects(self._reader.state.table)
        self._since = dict(since or {})
        self._stop_at_end = stop_at_end
        self._strict = strict
        self._pending: deque[Iterator[Change]] = deque()
        self._ready: deque[Change] = deque()
        self._handed_out = dict(self._since)
        if self.epoch:
            # What the file had is still to be handed out.
            self._pending.append(self._changes(AppliedEpoch(self.epoch, self._reader.state.since({}))))

    # Objects as they stand.

    def load(self, timeout_seconds: float = _LOAD_SECONDS) -> bool:
        """Read everything that is there now; whether an epoch has all of it.

        Where the job is in the middle of an epoch, its end is waited for so long beyond the reading; without
        it the state is that of the epoch before. What is read here is not handed out as changed.
        """
        with self._lock:
            self._pending.clear()
            self._ready.clear()
            for _ in self._reader.catch_up(timeout_seconds):
                continue
            self._check_records()
            return self._reader.is_complete

    def objects(self, class_: Id | str | None = None) -> Iterator[ChotkiObject]:
        """The objects of a class (its name or ID), or all of them, by ID, as of the last epoch read."""
        view = self._view
        wanted = None if class_ is None else view.resolve(class_)
        return view.objects() if wanted is None else view.objects(view.ids_of_class(wanted))

    def get(self, name: Id | str) -> ChotkiObject | None:
        """The object of a global name or an ID; None where the state has no such object."""
        try:
            return self._view.object(self._view.resolve(name))
        except NameUnknown:
            return None

    def classes(self) -> list[ChotkiClass]:
        """Every class, by ID."""
        return list(self._view.classes())

    def names(self) -> dict[str, Id]:
        """The global names of objects and classes."""
        return self._view.names()

    @property
    def epoch(self) -> int:
        """The last epoch that was read; 0 before the first."""
        return self._reader.state.epoch

    @property
    def vector(self) -> Mapping[int, int]:
        """The global vector of that epoch: of each source the last progress that everything is there of."""
        return self._reader.state.vector

    @property
    def bad_records(self) -> int:
        """How many records were passed over because they are none."""
        return self.passed_over.records

    @property
    def passed_over(self) -> PassedOver:
        """Records of the topic that are none: how many, and the first of them."""
        return self._reader.passed_over

    # Changes.

    async def load_async(self, timeout_seconds: float = _LOAD_SECONDS) -> bool:
        """`load` without blocking the event loop."""
        return await asyncio.to_thread(self.load, timeout_seconds)

    def poll(self, timeout_seconds: float) -> Change | None:
        """Return the next change, or None if none comes in time."""
        with self._lock:
            self._fill()
        return super().poll(timeout_seconds)

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has come to the end."""
        return self._stop_at_end and not self._pending and not self._ready and self._reader.is_read

    def positions(self) -> dict[int, int]:
        """For a later `since`, by partition: behind the last epoch of which everything was handed out."""
        if not self._pending and not self._ready:
            self._handed_out = dict(self._reader.state.offsets) or self._handed_out
        return dict(self._handed_out)

    @property
    def origin(self) -> Origin:
        """The cluster and the topic that `positions()` belong to: to be kept beside them."""
        return self._reader.origin

    def remaining_records(self) -> int:
        """Records still to be read of those that there were at the start, or at the last `load`."""
        with self._lock:
            return self._reader.remaining

    def close(self) -> None:
        """Close the connection and the file: nothing can be asked for any more."""
        super().close()

    def _close(self) -> None:
        self._reader.close()

    def _take(self) -> Change | None:
        return self._ready.popleft() if self._ready else None

    def _fill(self) -> None:
        """Make the next changes of the epochs that were read."""
        while self._pending and not self._ready:
            self._ready.extend(islice(self._pending[0], _READY))
            if not self._ready:
                self._pending.popleft()

    def _fetch(self, timeout_seconds: float) -> None:
        if not self._pending:
            self.positions()
            for epoch in self._reader.poll(timeout_seconds):
                self._pending.append(self._changes(epoch))
            self._check_records()
        self._fill()

    def _check_records(self) -> None:
        if self._strict and self.bad_records:
            raise RecordError(f"{self.passed_over.topic}: {self.passed_over.first[0]}")

    def _changes(self, epoch: AppliedEpoch) -> Iterator[Change]:
        """The changes of an epoch, made when they are taken."""
        view, table, wanted = self._view, self._reader.state.table, self._wanted_classes()
        window = {
            place: (max(first, self._since.get(place, 0)), end)
            for place, (first, end) in epoch.window.items()
        }
        for id, _ in table.changed(window, classes=True):
            class_ = view.class_of(id)
            if class_ is not None and (wanted is None or id in wanted):
                yield ClassChange(epoch.epoch, class_)
        changed = table.changed(window)
        while page := list(islice(changed, _PAGE)):
            places = {id: each for id, each in page if wanted is None or view.class_id_of(id) in wanted}
            for one in view.objects(list(places)):
                yield _object_change(epoch.epoch, one, places[one.id])

    def _wanted_classes(self) -> set[Id] | None:
        if self._classes is None:
            return None
        wanted = set()
        for one in self._classes:
            # A class that has not this name yet may come.
            with contextlib.suppress(NameUnknown):
                wanted.add(self._view.resolve(one))
        return wanted


def _object_change(epoch: int, one: ChotkiObject, places: set[Place]) -> ObjectChange:
    fields = {} if one.class_ is None else one.class_.fields
    names = tuple(name for name, field in fields.items() if place_of(one.class_id, field) in places)
    return ObjectChange(epoch, one, names, any(number == 0 for number, _ in places))
