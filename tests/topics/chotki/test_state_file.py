"""The local file of the state: kept, gone on with, emptied when in doubt, and of one program at a time."""

from __future__ import annotations

import sqlite3
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.log0 import COMMON_FIELDS
from culm_topics.chotki.errors import StateFileFailed
from culm_topics.chotki.objects import Objects
from culm_topics.chotki.state_file import FILE_NAME, StateFile
from culm_topics.chotki.state_reader import EpochStaging
from culm_topics.readers.batch import TopicMessage
from tests.streaming.chotki.test_chotki_epochs import story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.chotki.state import StateLog
from tests.support.freeze import chotki_state, frozen


def logs(epochs: int) -> list[StateLog]:
    """The topic as it grew, epoch by epoch."""
    topics = ChotkiTopics()
    job, copies = ChotkiJob(topics), []
    log = StateLog()
    for number in range(epochs):
        story(topics, number + 1)
        log.write(job.run())
        copy = StateLog()
        copy.partitions = [list(each) for each in log.partitions]
        copies.append(copy)
    return copies


def read_on(log: StateLog, folder: Path, *, limit: int | None = None) -> dict[bytes, bytes]:
    """What a program has that read on from its file, and stopped behind so many records."""
    file = StateFile(folder, b"here")
    staging = EpochStaging(3, file)
    begins = dict(staging.state.offsets)
    records = [
        message
        for each in log.partitions
        for message in each
        if message.offset >= begins.get(message.partition, 0)
    ]
    for record in records[:limit]:
        staging.take(record)
    values = staging.state.store()
    file.close()
    return values


def whole(log: StateLog) -> dict[bytes, bytes]:
    staging = EpochStaging(3)
    log.read(staging)
    return staging.state.store()


def test_a_file_goes_on_where_its_last_epoch_ended(tmp_path: Path) -> None:
    for log in logs(3):
        assert read_on(log, tmp_path) == whole(log)
    file = StateFile(tmp_path, b"here")
    state = EpochStaging(3, file).state
    assert state.epoch == 3
    assert state.offsets == {number: len(each) for number, each in enumerate(log.partitions)}
    file.close()


def test_what_no_epoch_had_is_read_again(tmp_path: Path) -> None:
    first, second = logs(2)
    read_on(first, tmp_path)
    records = sum(map(len, second.partitions)) - sum(map(len, first.partitions))
    for limit in range(records):
        assert read_on(second, tmp_path, limit=limit) == whole(first)
    assert read_on(second, tmp_path) == whole(second)


def test_a_repeat_of_the_last_epoch_is_known_after_a_restart(tmp_path: Path) -> None:
    (log,) = logs(1)
    before = read_on(log, tmp_path)
    for number, each in enumerate(log.partitions):
        log.partitions[number] = each + [
            TopicMessage(message.key, message.value, number, message.offset + len(each), 0)
            for message in each
        ]
    assert read_on(log, tmp_path) == before


@pytest.mark.parametrize("doubt", ["origin", "layout", "damage", "other"])
def test_a_file_in_doubt_is_filled_anew(tmp_path: Path, doubt: str) -> None:
    (log,) = logs(1)
    before = read_on(log, tmp_path)
    path = tmp_path / FILE_NAME
    if doubt == "origin":
        StateFile(tmp_path, b"elsewhere").close()
    elif doubt == "layout":
        with sqlite3.connect(path) as file:
            file.executescript("PRAGMA user_version = 99; DROP TABLE objects; CREATE TABLE objects (id)")
        file.close()
    elif doubt == "damage":
        path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5_000)
    else:
        path.write_bytes(b"this is no database, and long enough to say so" * 100)
    file_ = StateFile(tmp_path, b"here")
    assert EpochStaging(3, file_).state.epoch == 0
    file_.close()
    assert read_on(log, tmp_path) == before


def test_one_program_at_a_time_uses_a_file(tmp_path: Path) -> None:
    first = StateFile(tmp_path, b"here")
    with pytest.raises(StateFileFailed, match="locked"):
        StateFile(tmp_path, b"here")
    first.close()
    StateFile(tmp_path, b"here").close()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileFailed):
        StateFile(tmp_path / "file", b"here")


def test_a_file_that_is_closed_answers_nothing() -> None:
    file = StateFile()
    file.close()
    with pytest.raises(StateFileFailed):
        file.fields(Id.make(0, 1))


PLACES = st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from([(0, "O"), (1, "S"), (2, "I")]))


@given(st.lists(st.tuples(PLACES, st.integers(0, 3)), max_size=30), st.data())
def test_what_changed_in_a_window_is_every_value_that_was_last_written_there(
    writes: list[tuple[tuple[int, int, tuple[int, str]], int]], data: st.DataObject
) -> None:
    file = StateFile()
    ends = {0: 0, 1: 0, 2: 0}
    last: dict[tuple[Id, tuple[int, str]], tuple[int, int, int]] = {}
    for (partition, seq, field), value in writes:
        id = Id.make(partition, seq)
        file.stage(
            partition, ends[partition], object_key(Id(id.src, id.pro + field[0]), field[1]), bytes([value])
        )
        if (id, field) not in last or last[id, field][2] != value:
            last[id, field] = (partition, ends[partition], value)
        ends[partition] += 1
        if data.draw(st.booleans()):
            file.apply(ends, {})
    file.apply(ends, {})
    window = {
        partition: (data.draw(st.integers(0, end)), data.draw(st.integers(0, end)))
        for partition, end in ends.items()
    }
    expected: dict[Id, set[tuple[int, str]]] = {}
    for (id, field), (partition, offset, _) in last.items():
        if window[partition][0] <= offset < window[partition][1]:
            expected.setdefault(id, set()).add(field)
    changed = list(file.changed(window))
    assert dict(changed) == expected and [id for id, _ in changed] == sorted(expected)
    file.close()


def test_memory_is_bounded_whatever_is_read() -> None:
    file = StateFile()
    file.put_all(COMMON_FIELDS)
    tracemalloc.start()
    try:
        count = 10_000
        for number in range(count):
            id = Id.make(10, number + 1)
            file.stage(0, 2 * number, object_key(id, "O"), Id.make(0, 3).zip())
            file.stage(0, 2 * number + 1, object_key(Id(id.src, id.pro + 1), "S"), b"0" + b"x" * 1_000)
        file.apply({0: 2 * count}, {})
        assert sum(1 for _ in Objects(file).objects()) >= count
        assert sum(1 for _ in file.changed({0: (0, 2 * count)})) == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.6 * 2**20, "ten megabytes were read"
    file.close()


def test_a_file_of_an_earlier_program_is_gone_on_with(tmp_path: Path) -> None:
    folder = frozen.unpack(chotki_state.NAME, tmp_path)
    frozen.assert_as_kept(chotki_state.NAME, chotki_state.read(folder))
