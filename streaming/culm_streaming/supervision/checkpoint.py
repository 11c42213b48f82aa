"""The origin of a checkpoint: a file beside Spark's own, compared before a query starts.

Spark compares neither topic ids nor clusters: it continues with any topic of the same name, and silently
skips the records below its offsets. So each job's folder contains `culm.json` with the origin of its topics
(those that it reads, and those that it writes) and the number of state partitions. Files are read and written
by Hadoop's FileSystem, so a checkpoint may be stored wherever Spark can write one.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from culm_streaming.errors import CheckpointError, StateLayoutError
from culm_streaming.progress import Place, read_offsets
from culm_streaming.supervision.failures import cause_of, missing_file_system_hint
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

FILE: Final = "culm.json"
_FORMAT: Final = 1
_JVM_ERRORS: Final = (Py4JError, PySparkException)
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Belonging:
    """The topics that a checkpoint belongs to. `state_partitions` is None for a job without state."""

    origin: Origin
    state_partitions: int | None

    def encode(self) -> bytes:
        """Return the bytes of `culm.json`."""
        value = {
            "format": _FORMAT,
            **json.loads(self.origin.encode()),
            "state_partitions": self.state_partitions,
        }
        return json.dumps(value, indent=1, sort_keys=True).encode()

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Decode `culm.json`. Raises `RecordError` if it is malformed."""
        origin = Origin.decode(encoded)
        value = json.loads(encoded)
        partitions = value.get("state_partitions")
        if value.get("format") != _FORMAT or not isinstance(partitions, int | None):
            raise RecordError(f"format {value.get('format')!r} of {FILE} is not known")
        return cls(origin, partitions)

    def check(self, now: "Belonging", folder: str) -> None:
        """Raise `OriginChanged` or `StateLayoutError` if the job would run with anything else."""
        self.origin.check(now.origin, what=f"the checkpoint {folder}", remedy=_remedy(folder))
        if self.state_partitions != now.state_partitions:
            raise StateLayoutError(
                f"the checkpoint {folder} has {self.state_partitions} state partitions, not "
                f"{now.state_partitions}: their number is fixed for its life",
                hint=f"run with --state-partitions {self.state_partitions}, or with a new checkpoint folder",
            )


@dataclass(frozen=True, slots=True)
class SparkOffsets:
    """The latest batch that Spark has planned: the next offset of each partition, and its settings."""

    positions: Mapping[Place, int]
    state_partitions: int | None


class Checkpoint:
    """The folder of one job's checkpoint, a path or any URL that Spark can write.

    Raises `CheckpointError` if its file system cannot be used.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        self.folder = folder
        jvm: Any = session._jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        try:
            root = self._path(folder)
            self._files: Any = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
            self._root: Any = self._files.makeQualified(root)
        except _JVM_ERRORS as error:
            raise self._failed("used", error) from error

    def bind(self, now: Belonging) -> None:
        """Compare the checkpoint's origin with `now`; one without a batch belongs to `now` from here on.

        Raises `OriginChanged`, `StateLayoutError`, `CheckpointError`. Nothing is written if it raises.
        """
        planned = self.planned()
        kept = self.belonging()
        if planned is not None:
            if kept is None:
                kept = self._of_older_version(planned, now)
            kept.check(now, self.folder)
        if planned is None or kept != now:
            self._write(FILE, now.encode())

    def belonging(self) -> Belonging | None:
        """Return the contents of `culm.json`; None without one."""
        encoded = self._read(FILE)
        if encoded is None:
            return None
        try:
            return Belonging.decode(encoded)
        except RecordError as error:
            raise CheckpointError(
                f"{self.folder}/{FILE} cannot be read: {error}", hint=_remedy(self.folder)
            ) from error

    def planned(self) -> SparkOffsets | None:
        """Return the latest batch in Spark's log of offsets; None before the first one."""
        try:
            folder = self._path(self._root, "offsets")
            if not self._files.exists(folder):
                return None
            names = [status.getPath().getName() for status in self._files.listStatus(folder)]
        except _JVM_ERRORS as error:
            raise self._failed("read", error) from error
        batches = [int(name) for name in names if name.isdecimal()]
        encoded = self._read(f"offsets/{max(batches)}") if batches else None
        return None if encoded is None else _spark_offsets(encoded)

    def committed_ms(self) -> int | None:
        """Return when the latest micro-batch was committed, in ms since 1970; None before the first one."""
        try:
            folder = self._path(self._root, "commits")
            if not self._files.exists(folder):
                return None
            commits = {
                int(name): int(status.getModificationTime())
                for status in self._files.listStatus(folder)
                if (name := status.getPath().getName()).isdecimal()
            }
        except _JVM_ERRORS as error:
            raise self._failed("read", error) from error
        return commits[max(commits)] if commits else None

    def _of_older_version(self, planned: SparkOffsets, now: Belonging) -> Belonging:
        """Return the origin of a checkpoint without `culm.json`: its topics, with their current ids."""
        ids = {name: now.origin.topic_ids.get(name, "unknown") for name, _ in planned.positions}
        partitions = now.state_partitions and (planned.state_partitions or now.state_partitions)
        return Belonging(Origin(now.origin.cluster_id, ids), partitions)

    def _read(self, name: str) -> bytes | None:
        try:
            path = self._path(self._root, name)
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except _JVM_ERRORS as error:
            raise self._failed("read", error) from error

    def _write(self, name: str, content: bytes) -> None:
        # A reader must never find an incomplete file.
        fresh = self._path(self._root, f".{name}.{uuid.uuid4().hex}")
        path = self._path(self._root, name)
        try:
            stream = self._files.create(fresh, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
            self._files.delete(path, False)
            if not self._files.rename(fresh, path):
                raise CheckpointError(f"the checkpoint {self.folder} cannot be written: renaming fails")
        except _JVM_ERRORS as error:
            raise self._failed("written", error) from error

    def _failed(self, verb: str, error: Exception) -> CheckpointError:
        return CheckpointError(
            f"the checkpoint {self.folder} cannot be {verb}: {cause_of(error)}",
            hint=missing_file_system_hint(str(error)),
        )


def _spark_offsets(encoded: bytes) -> SparkOffsets:
    """Parse Spark's log of offsets.

    It has a version, the batch's metadata, then a line of offsets for each source.
    """
    _, metadata, *sources = encoded.decode().splitlines()
    positions: dict[Place, int] = {}
    for line in sources:
        for partition, offset in read_offsets(line).items():
            # Two sources of one query may read one topic: the position is the lower one, which neither has
            # passed.
            positions[partition] = min(offset, positions.get(partition, offset))
    partitions = (json.loads(metadata).get("conf") or {}).get(_PARTITIONS)
    return SparkOffsets(positions, None if partitions is None else int(partitions))


def _remedy(folder: str) -> str:
    return (
        "nothing was read or written. Run with the prefix and the Kafka that the checkpoint was made with, "
        f"or with another checkpoint; if topics were created again, move {folder} away: the job then reads "
        "its topics from their start (docs/operating.md, Topics created again)"
    )
