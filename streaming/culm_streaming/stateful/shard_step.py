"""Runs a job's step for each shard of a micro-batch on Spark's state, and for timers that have expired.

Before the shuffle rows are Arrow batches, after it they are data frames. They come in pieces, each of which
is passed to Spark separately, so a piece stays far below 2 GiB. A piece is a sequence of columns. Their types
are written as in Spark: `shard int, rows binary`.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.stateful.job_state import JobState, SparkState, Variable
from culm_topics.kafka.clients import KafkaSettings


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector for work with many objects and no cycles, which it would scan in vain."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


Batches = Iterator[pa.RecordBatch]
Piece = Sequence[Sequence[Any]]

RECORDS: Final = "topic string, key binary, value binary, partition int"
"""Columns of records to write: the topic's name in the catalogue; no partition if the key decides."""
_TYPES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
}


def map_batches(records: DataFrame, pack: Callable[[Batches], Iterable[Piece]], columns: str) -> DataFrame:
    """Let `pack` turn the Arrow batches that a task reads into pieces with these columns."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, columns.split(", "))])

    def packed(batches: Batches) -> Batches:
        with no_garbage_collection():
            for piece in pack(batches):
                if piece:
                    arrays = list(map(pa.array, piece, schema.types))
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return records.mapInArrow(packed, columns)


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return the rows of an Arrow batch."""
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def rows_of_frame(frame: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a data frame, of the columns with these names."""
    return zip(*(frame[name].tolist() for name in names), strict=True)


def columns_of(rows: Iterable[tuple[Any, ...]]) -> Piece:
    """Return rows as a piece, which is empty if there are no rows."""
    return tuple(zip(*rows, strict=True))


def frame_of(piece: Piece, names: Sequence[str]) -> pd.DataFrame:
    """Return a piece as a data frame; None stays None in every column."""
    columns = zip(names, piece, strict=True)
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns})


def names_of(columns: str) -> list[str]:
    """Return the names of the columns."""
    return [column.split(" ")[0] for column in columns.split(", ")]


def with_full_topics(written: DataFrame, kafka: KafkaSettings) -> DataFrame:
    """Replace each record's topic name of the catalogue by the deployment's."""
    return written.withColumn("topic", F.concat(F.lit(kafka.prefix), "topic"))


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard for which a step runs.

    `batch_ms` is the start of its micro-batch, the same in every run of it.
    """

    number: int
    state: JobState
    batch_ms: int
    _handle: StatefulProcessorHandle

    def set_timer(self, before_ms: int | None, timer_ms: int | None) -> None:
        """Replace the shard's previous timer."""
        if timer_ms is not None and timer_ms != before_ms:
            # Spark deletes an expired timer by itself, after its handler.
            if before_ms is not None and before_ms > self.batch_ms:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(timer_ms)


@dataclass(frozen=True, slots=True)
class ShardStep:
    """A job's part after the shuffle. Its functions are sent to workers, with their arguments.

    `take` receives all rows of a shard and micro-batch and returns pieces of output rows. `fire` does so for
    an expired timer. `restore` fills a new state from the rows of an initial state.
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
    """Run a step by the first column of `rows`, which numbers shards; the step receives the other columns."""
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
        # Spark passes the rows of one shard and micro-batch in several frames.
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
