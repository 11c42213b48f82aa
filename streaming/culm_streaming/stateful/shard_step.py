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

from culm_streaming.stateful.job_state import Variable
from culm_streaming.stateful.step_processor import FrameStep, Shard, StepProcessor
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
    initial_columns = [] if initial is None else initial.columns[1:]
    frame_step = StepOnFrames(step, rows.columns[1:], names_of(output), initial_columns)
    return rows.groupBy(shard).transformWithStateInPandas(
        StepProcessor(step.variables, frame_step),
        outputStructType=output,
        outputMode="append",
        timeMode=time_mode,
        initialState=None if initial is None else initial.groupBy(shard),
    )


@dataclass(frozen=True, slots=True)
class StepOnFrames(FrameStep):
    """A step on rows, with the names of the columns that it receives, returns and restores from."""

    step: ShardStep
    columns: Sequence[str]
    output: Sequence[str]
    initial: Sequence[str]

    def take(self, shard: Shard, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Return the output for all rows of a shard and micro-batch."""
        rows = [row for frame in frames for row in rows_of_frame(frame, self.columns)]
        yield from self._frames(self.step.take(shard, rows))

    def fire(self, shard: Shard, expiry_ms: int) -> Iterator[pd.DataFrame]:
        """Return the output for a timer that expired."""
        assert self.step.fire is not None
        yield from self._frames(self.step.fire(shard, expiry_ms))

    def restore(self, shard: Shard, frame: pd.DataFrame) -> None:
        """Fill a new state from rows of the initial state."""
        assert self.step.restore is not None
        self.step.restore(shard, list(rows_of_frame(frame, self.initial)))

    def _frames(self, pieces: Iterable[Piece]) -> Iterator[pd.DataFrame]:
        with no_garbage_collection():
            for piece in pieces:
                if piece:
                    yield frame_of(piece, self.output)
