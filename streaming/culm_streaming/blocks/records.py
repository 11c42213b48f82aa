"""Decodes records of `logs`, a whole batch at once: the log, number and schema of each.

Array operations accept only records in exactly the encoding of `LogRecord.encode`. All other records are
decoded individually, which reports what is wrong with them. Bare logs, whose payloads are not operations,
have no schema and so no block: their records are skipped.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from culm_models.bamboo.hashes import HASH_SIZE
from culm_streaming.blocks.rows import Array
from culm_topics.errors import RecordError
from culm_topics.logs.records import LogRecord
from culm_topics.records import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE, split_log_key

_ARRAY_OF_SIX = 0x86
_FORMAT = 1
_UINT, _BYTES, _TEXT = 0, 2, 3
_HASH_HEAD = 0x58  # bytes, their number in one byte
# Bytes after a head, by its low five bits: 24 to 27 announce 1, 2, 4 and 8; the last four never occur.
_ARGUMENT_SIZES = np.array([0] * 24 + [1, 2, 4, 8] + [-1] * 4)
# The smallest argument of each of these sizes in the shortest form.
_LEAST = np.zeros(9, np.uint64)
_LEAST[[1, 2, 4, 8]] = 24, 1 << 8, 1 << 16, 1 << 32


@dataclass(frozen=True, slots=True)
class HeightColumns:
    """The contents of a batch of `logs`: index in the batch, log, number and schema of each accepted record.

    `schema` is an index into `schemas`. `refused` has the indexes of all other records, except those of bare
    logs, with their errors.
    """

    place: Array
    log: Array
    seq_num: Array
    schema: Array
    schemas: list[bytes]
    refused: list[tuple[int, RecordError]]


def read_heights(keys: pa.Array, values: pa.Array) -> HeightColumns:
    """Decode a batch: `keys` and `values` are binary arrays of the same length, nulls allowed."""
    key_data, key_starts, key_sizes = _buffers(keys)
    data, starts, sizes = _buffers(values)
    walk = _Walk(data, starts, starts + sizes)
    ok = walk.ok & (key_sizes == LOG_KEY_SIZE)
    is_yamf = key_sizes == YAMF_LOG_KEY_SIZE  # always bare
    row_numbers = np.flatnonzero(ok)
    schema, schemas = _texts(data, walk.text_start[row_numbers], (starts + sizes)[row_numbers])
    readable = np.array([_is_text(text) for text in schemas], bool)
    good = readable[schema] if len(schemas) else np.zeros(0, bool)
    named = np.array([bool(text) for text in schemas], bool)
    refused: list[tuple[int, RecordError]] = []
    doubtful = np.concatenate((np.flatnonzero(~ok & ~is_yamf), row_numbers[~good]))
    if not named.all():
        good &= named[schema]
    row_numbers, schema = row_numbers[good], schema[good]
    logs = _cut(key_data, key_starts[row_numbers], LOG_KEY_SIZE).view("S40").ravel()
    seq_nums = walk.seq_num[row_numbers]
    late: list[tuple[int, bytes, int, int]] = []
    known = {text: number for number, text in enumerate(schemas)}
    for row in sorted(doubtful.tolist()):
        try:
            split_log_key(keys[row].as_py())
            record = LogRecord.decode(values[row].as_py())
        except RecordError as error:
            refused.append((row, error.with_traceback(None)))
            continue
        text = record.schema_id.encode()
        if not text:
            continue
        late.append((row, keys[row].as_py(), record.seq_num, known.setdefault(text, len(known))))
    if late:
        rows, more_logs, numbers, more_schemas = zip(*late, strict=True)
        row_numbers = np.append(row_numbers, rows)
        logs = np.append(logs, np.array(more_logs, "S40"))
        seq_nums = np.append(seq_nums, np.array(numbers, np.uint64))
        schema = np.append(schema, more_schemas)
    return HeightColumns(row_numbers, logs, seq_nums, schema, list(known), refused)


class _Walk:
    """Decodes all values in parallel, head by head; `ok` marks those in exactly the right encoding."""

    def __init__(self, data: Array, starts: Array, ends: Array) -> None:
        self._data = data
        self._last = max(len(data) - 1, 0)
        self._ends = ends
        self._at = starts.copy()
        self.ok = ends - starts >= 2
        if not len(data):
            self.ok[:] = False
            self._data = np.zeros(1, np.uint8)
        self._expect(_ARRAY_OF_SIX)
        self._expect(_FORMAT)
        self.seq_num = self._head(_UINT)
        self.ok &= self.seq_num > 0
        for _ in ("entry", "operation"):
            self._pass(self._head(_BYTES))
        self._expect(_HASH_HEAD)
        self._expect(HASH_SIZE)
        self._pass(np.full(len(starts), HASH_SIZE, np.uint64))
        length = self._head(_TEXT)
        self.text_start = self._at
        self.ok &= length == (np.maximum(ends, self._at) - self._at).astype(np.uint64)

    def _bytes(self, ahead: int = 0) -> Array:
        taken: Array = self._data[np.minimum(self._at + ahead, self._last)]
        return taken

    def _expect(self, byte: int) -> None:
        self.ok &= (self._at < self._ends) & (self._bytes() == byte)
        self._at = self._at + 1

    def _head(self, major: int) -> Array:
        """Read a head of this major type; returns its argument."""
        first = self._bytes()
        self.ok &= (self._at < self._ends) & (first >> 5 == major)
        low = first & 0x1F
        size = _ARGUMENT_SIZES[low]
        self.ok &= size >= 0
        size = np.maximum(size, 0)
        argument = np.where(size == 0, low, 0).astype(np.uint64)
        for ahead in range(1, int(size.max(initial=0)) + 1):
            reaches = size >= ahead
            argument = np.where(reaches, argument << np.uint64(8) | self._bytes(ahead), argument)
        self.ok &= argument >= _LEAST[size]
        self._at = self._at + 1 + size
        return argument

    def _pass(self, length: Array) -> None:
        """Skip `length` bytes."""
        self.ok &= length <= np.maximum(self._ends - self._at, 0).astype(np.uint64)
        self._at = self._at + np.where(self.ok, length, 0).astype(np.int64)


def _buffers(values: pa.Array) -> tuple[Array, Array, Array]:
    """Return (bytes, start of each value, size of each value); a null has size 0."""
    values = values.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    starts = offsets[:-1].astype(np.int64)
    return data, starts, np.diff(offsets)


def _texts(data: Array, starts: Array, ends: Array) -> tuple[Array, list[bytes]]:
    """Return the index of each text among the distinct texts, and these texts."""
    numbers = np.empty(len(starts), np.int64)
    texts: list[bytes] = []
    lengths = ends - starts
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        if not length:
            numbers[rows] = len(texts)
            texts.append(b"")
            continue
        cut = _cut(data, starts[rows], length).view(f"V{length}").ravel()
        distinct, which = np.unique(cut, return_inverse=True)
        numbers[rows] = which.ravel() + len(texts)
        texts += [text.tobytes() for text in distinct]
    return numbers, texts


def _cut(data: Array, starts: Array, length: int) -> Array:
    """Return `length` bytes from each start on, one row each."""
    if not len(starts):
        return np.empty((0, length), np.uint8)
    return np.ascontiguousarray(sliding_window_view(data, length)[starts])


def _is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
