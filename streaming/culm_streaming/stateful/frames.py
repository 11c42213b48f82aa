"""Rows of a job as Arrow batches (before the shuffle) and as data frames (behind it).

Rows come in pieces, each of which is handed to Spark by itself, so a piece stays far below 2 GiB. A piece is
its columns, side by side. What they are is written as in Spark: `shard int, rows binary`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from culm_streaming.gc_pause import no_garbage_collection
from culm_topics.kafka.clients import KafkaSettings

Batches = Iterator[pa.RecordBatch]
Piece = Sequence[Sequence[Any]]

RECORDS: Final = "topic string, key binary, value binary, partition int"
"""Columns of records to write: the catalogue's name of the topic, and no partition where the key decides."""
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
    """Return rows as a piece, which is empty if they are."""
    return tuple(zip(*rows, strict=True))


def frame_of(piece: Piece, names: Sequence[str]) -> pd.DataFrame:
    """Return a piece as a data frame; None stays None in every column."""
    columns = zip(names, piece, strict=True)
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns})


def names_of(columns: str) -> list[str]:
    """Return the names of the columns."""
    return [column.split(" ")[0] for column in columns.split(", ")]


def with_full_topics(written: DataFrame, kafka: KafkaSettings) -> DataFrame:
    """Replace each record's topic of the catalogue by the deployment's."""
    return written.withColumn("topic", F.concat(F.lit(kafka.prefix), "topic"))
