"""Changes since any offset, on top of what was known there, are the objects of now; without Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from culm_models.chotki.ids import Id
from culm_models.chotki.log0 import SYSTEM_SOURCE
from culm_topics.chotki import consumer as consumer_module
from culm_topics.chotki.changes import Edit, NewClass, NewObject
from culm_topics.chotki.consumer import ChotkiConsumer, ObjectChange
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.state_reader import AppliedEpoch, EpochStaging, ObjectState
from culm_topics.readers.batch import PassedOver
from tests.support.chotki.programs import ORIGIN, Programs
from tests.support.chotki.state import StateLog

Steps = list[tuple[str, int, int]]
KINDS = st.sampled_from(["new", "edit", "edit", "merge", "note"])
STEPS = st.lists(st.tuples(KINDS, st.integers(0, 9), st.integers(0, 2)), max_size=30)


class LogReader:
    """`StateReader` over a list, some records at a time."""

    log: StateLog
    origin = ORIGIN

    def __init__(self, *_: object, **__: object) -> None:
        self._staging = EpochStaging(3)
        self._places = [0, 0, 0]

    @property
    def state(self) -> ObjectState:
        return self._staging.state

    @property
    def passed_over(self) -> PassedOver:
        return self._staging.passed_over

    @property
    def is_read(self) -> bool:
        return all(
            position == len(each) for position, each in zip(self._places, self.log.partitions, strict=True)
        )

    def poll(self, _: float) -> list[AppliedEpoch]:
        applied = []
        for number, records in enumerate(self.log.partitions):
            first, self._places[number] = self._places[number], min(len(records), self._places[number] + 7)
            applied += [self._staging.take(record) for record in records[first : self._places[number]]]
        return [epoch for epoch in applied if epoch is not None]

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "StateReader", LogReader)


def consume(log: StateLog, mirror: dict[Id, Any], since: Mapping[int, int]) -> dict[int, int]:
    """Take every change from there on into the mirror; where the next consumer goes on."""
    LogReader.log = log
    with ChotkiConsumer("nowhere", since=since, stop_at_end=True) as consumer:
        for change in consumer:
            if isinstance(change, ObjectChange):
                # The system's own objects were there before the first epoch.
                assert change.is_new or change.object.id in mirror or change.object.id.src == SYSTEM_SOURCE
                mirror[change.object.id] = change.object
        return consumer.positions()


@pytest.mark.usefixtures("programs")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.booleans())
def test_changes_since_an_offset_lead_to_the_objects_of_now(steps: Steps, compacted: bool) -> None:
    written = Programs()
    written.write(NewClass({"Name": "S", "Tags": "E"}, "thing"))
    written.merge()
    objects: list[Id] = []
    notes: list[tuple[dict[Id, Any], dict[int, int]]] = [({}, {})]
    for kind, which, value in steps:
        if kind == "new":
            (id,) = written.write(NewObject("thing", {"Name": str(value), "Tags": [value]}))
            assert id is not None
            objects.append(id)
        elif kind == "edit" and objects:
            written.write(Edit(objects[which % len(objects)], {"Name": str(value), "Tags": [value, which]}))
        elif kind == "merge":
            written.merge()
        elif kind == "note":
            mirror: dict[Id, Any] = {}
            notes.append((mirror, consume(written.log, mirror, {})))
    written.merge()
    if compacted:
        written.log.compact(0, 1, 2)
    expected = {object_.id: object_ for object_ in Objects(written.state.table).objects()}
    for mirror, since in notes:
        consume(written.log, mirror, since)
        assert mirror == {
            id: object_ for id, object_ in expected.items() if id.src != SYSTEM_SOURCE or id in mirror
        }
