"""Runs a job's step for each shard of a micro-batch on Spark's state, and for timers that have expired."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.gc_pause import no_garbage_collection
from culm_streaming.stateful.frames import RECORDS, Piece, frame_of, names_of, rows_of_frame
from culm_streaming.stateful.job_state import JobState, SparkState, Variable


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard that a step is run for. `batch_ms`: when its micro-batch began, in every run of it."""

    number: int
    state: JobState
    batch_ms: int
    _handle: StatefulProcessorHandle

    def set_timer(self, before_ms: int | None, timer_ms: int | None) -> None:
        """Replace the shard's timer that was set before."""
        if timer_ms is not None and timer_ms != before_ms:
            # Spark deletes an expired timer by itself, after its handler.
            if before_ms is not None and before_ms > self.batch_ms:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(timer_ms)


@dataclass(frozen=True, slots=True)
class ShardStep:
    """A job's part behind the shuffle. Its functions are sent to workers, with their arguments.

    `take` gets all rows of a shard and micro-batch and returns pieces of output rows. `fire` does so for an
    expired timer. `restore` fills a new state from the rows of an initial state.
    """

    variables: Sequence[Variable[Any]]
    take: Callable[[Shard, list[Any]], Iterable[Piece]]
    fire: Callable[[Shard, int], Iterable[Piece]] | None = None
    restore: Callable[[Shard, list[Any]], None] | None = None


def step_by_shard(
    rows: DataFrame,
    step: ShardStep,
    output: str = RECORDS,
    *,
    time_mode: Literal["none", "processingTime"] = "none",
    initial: DataFrame | None = None,
) -> DataFrame:
    """Run a step by the first column of `rows`, which numbers shards; the step gets the other columns."""
    shard = rows.columns[0]
    return rows.groupBy(shard).transformWithStateInPandas(
        _StepProcessor(
            step, rows.columns[1:], names_of(output), [] if initial is None else initial.columns[1:]
        ),
        outputStructType=output,
        outputMode="append",
        timeMode=time_mode,
        initialState=None if initial is None else initial.groupBy(shard),
    )


class _StepProcessor(StatefulProcessor):
    def __init__(
        self, step: ShardStep, columns: Sequence[str], output: Sequence[str], initial: Sequence[str]
    ) -> None:
        self._step = step
        self._columns, self._output, self._initial = columns, output, initial

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = SparkState(handle, self._step.variables)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        # Spark hands over the rows of one shard and micro-batch in several frames.
        packed = [row for frame in rows for row in rows_of_frame(frame, self._columns)]
        yield from self._frames(self._step.take(self._shard(key, timerValues), packed))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        assert self._step.fire is not None
        shard = self._shard(key, timerValues)
        yield from self._frames(self._step.fire(shard, expiredTimerInfo.getExpiryTimeInMs()))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        assert self._step.restore is not None
        rows = list(rows_of_frame(initialState, self._initial))
        self._step.restore(self._shard(key, timerValues), rows)

    def close(self) -> None:
        pass

    def _shard(self, key: Any, timer_values: TimerValues) -> Shard:
        return Shard(int(key[0]), self._state, timer_values.getCurrentProcessingTimeInMs(), self._handle)

    def _frames(self, pieces: Iterable[Piece]) -> Iterator[pd.DataFrame]:
        with no_garbage_collection():
            for piece in pieces:
                if piece:
                    yield frame_of(piece, self._output)
