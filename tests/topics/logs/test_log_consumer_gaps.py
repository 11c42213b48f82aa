"""An entry that `logs` lacks costs its own log and no other, and what only comes late is no gap."""

from pathlib import Path

import pytest

from culm_topics.errors import (
    LogGap,
)
from culm_topics.logs.consumer import LogConsumer, Problem
from tests.support.log_topic import author_key, everything, new_log_topic, steps_of, take, write_steps

pytestmark = pytest.mark.kafka


def test_a_gap_sets_its_log_aside_and_costs_no_other(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    reported: list[Problem] = []
    with LogConsumer(settings, stop_at_end=True, on_problem=reported.append) as consumer:
        assert steps_of(consumer) == [("a", 1), ("b", 1)]
        assert consumer.logs_set_aside == tuple(reported)
    (problem,) = reported
    assert (problem.code, problem.log, problem.missing_seq_num) == ("topics.gap", (author_key("a"), 0), 2)
    assert (problem.partition, problem.offset) == (0, 1)
    assert "entry 2 is missing" in str(problem.error)


def test_a_strict_reader_ends_at_a_gap(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    with LogConsumer(settings, stop_at_end=True, strict=True) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        with pytest.raises(LogGap):
            next(consumer)
    with LogConsumer(settings, gap_wait_seconds=0, strict=True) as consumer, pytest.raises(LogGap):
        take(consumer, 3)


def test_a_log_that_was_set_aside_goes_on_when_the_missing_entry_comes(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    with LogConsumer(settings, gap_wait_seconds=0) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        while not consumer.logs_set_aside:
            consumer.poll(0.1)
        assert consumer.positions() == {0: 3}, "what is set aside holds no position back"
        write_steps(settings, [("a", 4), ("a", 2), ("a", 3), ("a", 4)])
        assert take(consumer, 3) == [("a", 2), ("a", 3), ("a", 4)]
        assert not consumer.logs_set_aside


@pytest.mark.parametrize("with_state", [True, False])
def test_a_log_that_was_set_aside_stays_so_across_a_restart(
    kafka_bootstrap: str, tmp_path: Path, with_state: bool
) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1)])
    state_dir = tmp_path if with_state else None
    group = f"{settings.prefix}g"
    assert everything(settings, group_id=group, state_dir=state_dir) == [("a", 1), ("b", 1)]
    write_steps(settings, [("a", 4), ("b", 2)])
    assert everything(settings, group_id=group, state_dir=state_dir) == [("b", 2)]
    write_steps(settings, [("a", 2), ("a", 3)])
    assert everything(settings, group_id=group, state_dir=state_dir) == [("a", 2), ("a", 3)]


def test_a_log_that_does_not_begin_at_one_is_set_aside(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 2)])
    with LogConsumer(settings, stop_at_end=True) as consumer:
        assert steps_of(consumer) == []
        assert [problem.missing_seq_num for problem in consumer.logs_set_aside] == [1]


def test_a_hole_that_the_second_run_of_a_batch_fills_is_no_gap(kafka_bootstrap: str, tmp_path: Path) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", 1), ("a", 3), ("b", 1), ("a", 1), ("a", 2), ("a", 3), ("a", 4)])
    assert everything(settings) == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 4)]
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group, state_dir=tmp_path) as consumer:
        assert take(consumer, 2) == [("a", 1), ("b", 1)]
        assert consumer.positions() == {0: 1}, "a record set aside holds the position back"
        consumer.commit()
    # b 1 was committed with the heights, although its offset is behind the committed one.
    assert everything(settings, group_id=group, state_dir=tmp_path) == [("a", 2), ("a", 3), ("a", 4)]
