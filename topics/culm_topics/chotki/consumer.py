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
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.local import named_kafka
from culm_topics.kafka.origin import Origin
from culm_topics.readers.state_consumer import READY, StateConsumer

_LOAD_SECONDS: Final = 10.0
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that changed in an epoch, as of that epoch; `fields` are the names of the changed fields.

    `is_new`: the object itself is among the changes. Several changes in one epoch are combined.
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


class ChotkiConsumer(StateConsumer[Change, StateReader]):
    """Reads the merged state from Kafka; an iterator and an asynchronous iterator of changes.

    `kafka` is bootstrap servers, or settings; without it, the cluster that the environment names (see
    `culm_topics.kafka.local`). `classes` (names or IDs) restricts which changes are handed out, but not
    lookups.

    The state is on disk, some 100 bytes per field beside its value, and memory is bounded: 32 MiB of it are
    cached. With a `state_dir` it stays there, and the next consumer reads only newer records from Kafka; one
    program at a time uses it. Without one it is a temporary file, and every consumer reads the topic from its
    beginning.

    Changes come epoch by epoch: the classes of an epoch before its objects, each as of that epoch or later.
    Vectors never run ahead of values. By default everything that exists comes first, as new; after `load`
    only later changes. `since` (an earlier `positions()`) leaves out what was written before: a program that
    continues from there sees everything at least once. `origin`, taken with those positions, ensures that
    they belong to this topic. `stop_at_end` ends the iteration after the contents of the topic at the start.

    `Malformed` records are skipped and counted (`bad_records`, `passed_over`); with `strict` they raise
    `RecordError`. Also raises `OriginChanged`, `TopicRecreated`, `TopicMissing`, `OffsetOutOfRange`,
    `KafkaFailure`, `StateFileFailed`. Not for several threads or tasks at once, except `stop()`.
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
        reader = StateReader(
            named_kafka(kafka),
            state_dir=None if state_dir is None else Path(state_dir),
            topic_check_seconds=topic_check_seconds,
        )
        super().__init__(reader, since=since, origin=origin, stop_at_end=stop_at_end, strict=strict)
        self._classes = None if classes is None else tuple(classes)
        self._view = Objects(self._reader.state.table)
        self._pending: deque[AppliedEpoch] = deque()
        self._changes: Iterator[Change] | None = None
        """The changes of the first of these that are computed next."""
        self._computed = 0
        """Number of its changes that were computed. If the file fails, those after them come next."""
        if self.epoch:
            # The contents of the file are still to be handed out.
            self._pending.append(AppliedEpoch(self.epoch, self._reader.state.since({})))

    # Objects in their present state.

    def load(self, timeout_seconds: float = _LOAD_SECONDS) -> bool:
        """Read up to the present end. Returns whether an epoch covers all of it.

        If the job is in the middle of an epoch, waits up to `timeout_seconds` after the reading for its end;
        otherwise the state is that of the previous epoch. Changes that are read here are not handed out.
        """
        with self._lock:
            self._pending.clear()
            self._changes, self._computed = None, 0
            self._ready.clear()
            for _ in self._reader.catch_up(timeout_seconds):
                continue
            self._check_records()
            return self._reader.is_complete

    def objects(self, class_: Id | str | None = None) -> Iterator[ChotkiObject]:
        """Return the objects of a class (its name or ID), or all, by ID, as of the last epoch read."""
        view = self._view
        wanted = None if class_ is None else view.resolve(class_)
        return view.objects() if wanted is None else view.objects(view.ids_of_class(wanted))

    def get(self, name: Id | str) -> ChotkiObject | None:
        """Return the object with a global name or an ID; None if the state has no such object."""
        try:
            return self._view.object(self._view.resolve(name))
        except NameUnknown:
            return None

    def classes(self) -> list[ChotkiClass]:
        """Return every class, by ID."""
        return list(self._view.classes())

    def names(self) -> dict[str, Id]:
        """Return the global names of objects and classes."""
        return self._view.names()

    @property
    def epoch(self) -> int:
        """The last epoch that was read; 0 before the first."""
        return self._reader.state.epoch

    @property
    def vector(self) -> Mapping[int, int]:
        """The global vector of that epoch: each source's progress up to which all is present."""
        return self._reader.state.vector

    # Changes.

    async def load_async(self, timeout_seconds: float = _LOAD_SECONDS) -> bool:
        """Run `load` without blocking the event loop."""
        return await asyncio.to_thread(self.load, timeout_seconds)

    @property
    def finished(self) -> bool:
        """Whether `stop_at_end` has reached the end."""
        return self._stop_at_end and not self._pending and not self._ready and self._reader.is_read

    def positions(self) -> dict[int, int]:
        """Return positions for a later `since`, by partition: after the last epoch handed out completely."""
        if not self._pending and not self._ready:
            self._handed_out = dict(self._reader.state.offsets) or self._handed_out
        return dict(self._handed_out)

    def _fill(self) -> None:
        """Produce the next changes of the epochs that were read."""
        while self._pending and not self._ready:
            if self._changes is None:
                # The state is still that of the last epoch, so the changes are the same each time.
                self._changes = islice(self._changes_of(self._pending[0]), self._computed, None)
            try:
                self._ready.extend(islice(self._changes, READY))
            except BaseException:
                # A generator that has failed is at its end.
                self._changes = None
                raise
            finally:
                self._computed += len(self._ready)
            if not self._ready:
                self._pending.popleft()
                self._changes, self._computed = None, 0

    def _fetch(self, timeout_seconds: float) -> None:
        if not self._pending:
            self.positions()
            self._pending.extend(self._reader.poll(timeout_seconds))
            self._check_records()
        self._fill()

    def _changes_of(self, epoch: AppliedEpoch) -> Iterator[Change]:
        """Yield the changes of an epoch, computed on demand."""
        view, table, wanted = self._view, self._reader.state.table, self._wanted_classes()
        window = {
            partition: (max(first, self._since.get(partition, 0)), end)
            for partition, (first, end) in epoch.window.items()
        }
        for id, _ in table.changed(window, classes=True):
            class_ = view.class_of(id)
            if class_ is not None and (wanted is None or id in wanted):
                yield ClassChange(epoch.epoch, class_)
        changed = table.changed(window)
        while page := list(islice(changed, _PAGE)):
            places = {id: each for id, each in page if wanted is None or view.class_id_of(id) in wanted}
            for object_ in view.objects(list(places)):
                yield _object_change(epoch.epoch, object_, places[object_.id])

    def _wanted_classes(self) -> set[Id] | None:
        if self._classes is None:
            return None
        wanted = set()
        for name in self._classes:
            # A class may get this name later.
            with contextlib.suppress(NameUnknown):
                wanted.add(self._view.resolve(name))
        return wanted


def _object_change(epoch: int, object_: ChotkiObject, places: set[Place]) -> ObjectChange:
    fields = {} if object_.class_ is None else object_.class_.fields
    names = tuple(name for name, field in fields.items() if place_of(object_.class_id, field) in places)
    return ObjectChange(epoch, object_, names, any(number == 0 for number, _ in places))
