"""The order of the logs without Kafka: whatever an at-least-once sink writes, each entry comes once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_topics.errors import OriginChanged
from culm_topics.kafka.origin import Origin
from culm_topics.logs.consumer.entry import Selection
from culm_topics.logs.consumer.heights import LogHeights, SequenceResult
from culm_topics.logs.consumer.problems import Problems
from culm_topics.logs.consumer.sequencer import Sequencer
from culm_topics.logs.consumer.snapshot import Snapshot
from tests.support.p2panda.log_topic import Step, author_key, log_record, steps_of


def run(sequencer: Sequencer, steps: list[Step], *, first_offset: int = 0) -> list[Step]:
    handed_out: list[Step] = []
    for offset, (name, seq_num) in enumerate(steps, first_offset):
        key, value = log_record(name, seq_num)
        entry = sequencer.push(key, value, partition=0, offset=offset, timestamp_ms=0, learns=False, now_s=0)
        while entry is not None:
            handed_out += steps_of([entry])
            entry = sequencer.pull()
    return handed_out


def new_sequencer() -> Sequencer:
    return Sequencer(Selection(), Problems(None, strict=False), gap_wait_seconds=0, remember_changes=False)


@st.composite
def sink_output(draw: st.DrawFn) -> tuple[list[Step], dict[str, int]]:
    """Batches of new entries; each may be tried several times, a failed try leaving any part of itself."""
    heights = {"a": 0, "b": 0, "c": 0}
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, 5))):
        batch: list[Step] = []
        for name in draw(st.lists(st.sampled_from("abc"), max_size=8)):
            heights[name] += 1
            batch.append((name, heights[name]))
        for _ in range(draw(st.integers(0, 2))):
            steps += [step for step in batch if draw(st.booleans())]
        steps += batch
    return steps, heights


@given(sink_output())
def test_each_log_comes_complete_in_order_and_once(output: tuple[list[Step], dict[str, int]]) -> None:
    steps, heights = output
    handed_out = run(new_sequencer(), steps)
    for name, height in heights.items():
        assert [number for log, number in handed_out if log == name] == list(range(1, height + 1))


@given(sink_output(), st.data())
def test_a_restart_anywhere_changes_nothing(
    output: tuple[list[Step], dict[str, int]], data: st.DataObject
) -> None:
    """As the reader does it: records before the position raise the heights, the rest is handed out."""
    steps, _ = output
    cut = data.draw(st.integers(0, len(steps)))
    first = new_sequencer()
    before = run(first, steps[:cut])
    waiting = first.early.first_offset(0)
    position = cut if waiting is None else waiting
    second = new_sequencer()
    for name, seq_num in steps[:position]:
        key, value = log_record(name, seq_num)
        second.learn(key, value, partition=0, offset=0, in_sequence=False)
    after = run(second, steps[position:], first_offset=position)
    whole = run(new_sequencer(), steps)
    if waiting is None:
        assert before + after == whole
    else:
        # A hole was open: what came after it is handed out again, and nothing is lost.
        assert set(before) | set(after) == set(whole)


def test_too_many_records_behind_holes_are_a_gap() -> None:
    sequencer = new_sequencer()
    assert run(sequencer, [("a", number) for number in range(2, 10_100)]) == []
    (problem,) = sequencer.problems.set_aside.values()
    assert "entry 1 is missing, entry 2 came" in str(problem.error)
    assert len(sequencer.early) == 0, "nothing is kept of a log that is set aside"


def test_judging_a_record_does_not_change_its_log() -> None:
    heights = LogHeights()
    heights.raise_to(b"log", 3, 1)
    assert [heights.judge(b"log", number) for number in (2, 3, 4, 5)] == [
        SequenceResult.REPEAT,
        SequenceResult.REPEAT,
        SequenceResult.NEXT,
        SequenceResult.EARLY,
    ]
    heights.raise_to(b"log", 2, 1)
    assert heights.height(b"log") == 3
    heights.raise_to(b"far", 2**64 - 1, 65535)
    assert heights.height(b"far") == 2**64 - 1


def test_heights_of_a_partition_that_is_given_up_are_forgotten() -> None:
    heights = LogHeights(remember_changes=True)
    heights.raise_to(b"one", 1, 0)
    heights.raise_to(b"two", 2, 1)
    heights.drop([0])
    assert (heights.height(b"one"), heights.height(b"two")) == (0, 2)
    assert heights.changes() == heights.changes() == [(b"two", 2, 1)]
    heights.forget_changes()
    assert heights.changes() == []


def snapshot(
    directory: Path, topic_id: str = "id", cluster_id: str = "cluster", selection: str = "all"
) -> Snapshot:
    origin = Origin(cluster_id, {"logs": topic_id})
    return Snapshot(directory, group_id="g", topic="logs", origin=origin, selection=selection)


def test_a_snapshot_gives_back_what_was_saved(tmp_path: Path) -> None:
    first = snapshot(tmp_path)
    first.save({0: 7, 1: 0}, [(b"log", 2**64 - 1, 0), (b"other", 1, 1)])
    first.close()
    again = snapshot(tmp_path)
    assert again.load(0) == (7, [(b"log", 2**64 - 1)])
    assert again.load(1) == (0, [(b"other", 1)])
    assert again.load(2) is None
    again.close()


def test_a_snapshot_of_another_selection_is_dropped_and_of_another_topic_refused(tmp_path: Path) -> None:
    first = snapshot(tmp_path)
    first.save({0: 7}, [(b"log", 3, 0)])
    first.close()
    other = snapshot(tmp_path, selection="some")
    assert other.load(0) is None
    other.close()
    with pytest.raises(OriginChanged, match="deleted and created again"):
        snapshot(tmp_path, topic_id="new", selection="some")
    with pytest.raises(OriginChanged, match="the cluster was cluster and is other"):
        snapshot(tmp_path, cluster_id="other", selection="some")


def test_equal_selections_have_equal_fingerprints() -> None:
    first_author, second_author = author_key("one"), author_key("two")
    assert (
        Selection.of(["a", "b"], [first_author, second_author]).fingerprint()
        == Selection.of(["b", "a"], [second_author, first_author]).fingerprint()
    )
    fingerprints = {
        Selection.of().fingerprint(),
        Selection.of([]).fingerprint(),
        Selection.of(["a"]).fingerprint(),
        Selection.of(["ab"]).fingerprint(),
        Selection.of(["a", "b"]).fingerprint(),
        Selection.of(None, [first_author]).fingerprint(),
        Selection.of(None, None, [(first_author, 0)]).fingerprint(),
        Selection.of(None, None, [(first_author, 1)]).fingerprint(),
    }
    assert len(fingerprints) == 8
