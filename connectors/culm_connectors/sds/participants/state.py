"""A participant's state in a folder: a snapshot, the inputs since then, and the log of delivered messages.

The machine is a function of its inputs, so what is written is each input, with its time, before anything that
follows from it leaves the process: a restart reads the snapshot, repeats the inputs, and stands exactly where
the former process stood. From time to time a new snapshot takes the place of the inputs.

`durable`: inputs are on the disk (fsync, one for all inputs of a batch) before what follows from them is
sent, so a power failure loses nothing that others have seen. Without it they are handed to the operating
system, which survives the death of the process, but not of the machine.
"""

from __future__ import annotations

import itertools
import logging
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from culm_connectors.local_store.folder_lock import FolderLock
from culm_connectors.sds.errors import StateError
from culm_models import cbor
from culm_models.sds.wire.messages import Profile

logger = logging.getLogger(__name__)

_FORMAT: Final = 1
_SNAPSHOT: Final = "snapshot"
_TOLD: Final = "told"
_HEAD_BYTES: Final = 8
_MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
_LEAST_INPUT_BYTES: Final = 8 * 1024 * 1024
# Inputs may take so many times the snapshot's size before the next one: its cost stays in proportion.
_INPUTS_PER_SNAPSHOT: Final = 4


@dataclass(frozen=True, slots=True)
class ParticipantSnapshot:
    """All of a participant's state at one moment. `told`: entries of the told file that belong to it."""

    channel_id: str
    profile: Profile
    participant_id: str
    seed: bytes
    settings: Mapping[str, Any]
    made_ms: int
    now_ms: int
    journal: bytes
    head: bytes
    logged: int
    cursor: bytes | None
    clock_ms: int | None = None
    """The wall clock at `now_ms`; None: the same."""

    def pack(self, generation: int) -> bytes:
        """As bytes."""
        return cbor.dumps(
            (
                _FORMAT,
                generation,
                self.channel_id,
                self.profile,
                self.participant_id,
                self.seed,
                dict(self.settings),
                self.made_ms,
                self.now_ms,
                self.journal,
                self.head,
                self.logged,
                self.cursor,
                self.clock_ms,
            )
        )


class StateFolder:
    """The files of one participant in one channel; one process at a time. Close it, or use it in `with`.

    `snapshot` is None in a folder that is new. Raises `StateError`, `OSError`.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._lock = FolderLock(
            path,
            lambda: StateError(f"{path} is in use", hint="another process is this participant"),
            file_name="lock",
        )
        self.snapshot: ParticipantSnapshot | None = None
        self._generation = 0
        self._snapshot_bytes = 0
        self._pending = bytearray()
        self._told_pending = bytearray()
        try:
            self._read_snapshot()
            self._inputs = self._open(self._inputs_name(self._generation))
            self._told = self._open(_TOLD)
            self._drop_others()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> StateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the folder."""
        self._inputs.close()
        self._told.close()
        self._lock.release()

    def _read_snapshot(self) -> None:
        file = self.path / _SNAPSHOT
        if not file.exists():
            return
        try:
            (record,) = [body for body, _ in _records(file.read_bytes())]
            format_number, self._generation, *fields = cbor.loads(record)
            if format_number != _FORMAT:
                raise StateError(f"{file} has format {format_number}; known is {_FORMAT}")
            self.snapshot = ParticipantSnapshot(*fields)
        except (ValueError, TypeError, cbor.CborError) as error:
            raise StateError(f"{file} is damaged", hint="move the folder away to start again") from error
        self._snapshot_bytes = len(record)

    def _inputs_name(self, generation: int) -> str:
        return f"inputs.{generation}"

    def _open(self, name: str) -> BinaryIO:
        """A file to append to. A last record that was cut off was never acted upon: it is forgotten."""
        path = self.path / name
        file = path.open("ab")
        data = path.read_bytes()
        whole = max((end for _, end in _records(data)), default=0)
        if whole < len(data):
            logger.warning("%s: the last %d bytes were cut off", path, len(data) - whole)
            file.truncate(whole)
        return file

    def _drop_others(self) -> None:
        keep = self._inputs_name(self._generation)
        for file in self.path.glob("inputs.*"):
            if file.name != keep:
                file.unlink()

    # What was written.

    def inputs(self) -> Iterator[list[Any]]:
        """Every input since the snapshot, in order."""
        yield from _read(self.path / self._inputs_name(self._generation))

    # Writing.

    def add_input(self, *items: Any) -> None:
        """Add an input; `commit` writes it."""
        self._pending += _framed(cbor.dumps(items))

    def add_log_entry(self, *items: Any) -> None:
        """Add an entry to the log of delivered messages; `commit` writes it."""
        self._told_pending += _framed(cbor.dumps(items))

    @property
    def has_pending(self) -> bool:
        """Whether `commit` has something to write."""
        return bool(self._pending or self._told_pending)

    def commit(self) -> None:
        """Write what was added. Only then may anything that follows from it leave the process."""
        for file, pending in ((self._inputs, self._pending), (self._told, self._told_pending)):
            if pending:
                file.write(pending)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
                pending.clear()

    @property
    def wants_snapshot(self) -> bool:
        """Whether the inputs have grown so much that a snapshot pays."""
        max_input_bytes = max(_LEAST_INPUT_BYTES, _INPUTS_PER_SNAPSHOT * self._snapshot_bytes)
        return self._inputs.tell() > max_input_bytes

    def write_snapshot(self, snapshot: ParticipantSnapshot) -> None:
        """Put a snapshot in the place of the inputs; everything must have been committed."""
        assert not self._pending, "a snapshot is of what was committed"
        generation = self._generation + 1
        packed = snapshot.pack(generation)
        partial = self.path / f"{_SNAPSHOT}.partial"
        with partial.open("wb") as file:
            file.write(_framed(packed))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path / _SNAPSHOT)
        self._sync_folder()
        self._inputs.close()
        self._generation, self._snapshot_bytes, self.snapshot = generation, len(packed), snapshot
        self._inputs = self._open(self._inputs_name(generation))
        self._drop_others()
        self._sync_folder()

    def _sync_folder(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def _records(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield complete records and the offset where each ends, up to the first incomplete or damaged record."""
    start = 0
    while start + _HEAD_BYTES <= len(data):
        size = int.from_bytes(data[start : start + 4], "big")
        end = start + _HEAD_BYTES + size
        if size > _MAX_RECORD_BYTES or end > len(data):
            return
        body = data[start + _HEAD_BYTES : end]
        if zlib.crc32(body) != int.from_bytes(data[start + 4 : start + 8], "big"):
            return
        yield body, end
        start = end


def _read(path: Path) -> Iterator[list[Any]]:
    for body, _ in _records(path.read_bytes()):
        yield cbor.loads(body)


def log_entries(path: Path, after: int = 0) -> Iterator[list[Any]]:
    """Yield the entries delivered to the application, after the first `after`; nothing from a new folder."""
    if (path / _TOLD).exists():
        yield from itertools.islice(_read(path / _TOLD), after, None)
