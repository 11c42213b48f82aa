"""One shard's part of an epoch: merges operands into fields, and raises the vectors of blocks.

A plain function of rows and state (reference 9.2, rule 5). The output of a micro-batch follows from its rows
and its state alone; a merged value is written if it has changed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from culm_models.chotki.errors import ChotkiError, RecordTooLarge
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, block_of, split_object_key, vector_key
from culm_models.chotki.log0 import COMMON_FIELDS
from culm_models.chotki.rdx import parse_vector, write_vector
from culm_models.chotki.rdx.batch import merge_many
from culm_models.chotki.store import MERGED_ALONE, SEEN_TYPES
from culm_streaming.chotki.output_records import OutputStage, OutputTopic, StagedRecord
from culm_streaming.chotki.packing import FIRST_BLOCK, checked_operand
from culm_streaming.chotki.rows import Operand, ShardRows, VectorRow
from culm_streaming.chotki.settings import ChotkiStateSettings
from culm_streaming.chotki.state import BLOBS, Kept, KeptPieces, open_buckets
from culm_streaming.errors import JobError
from culm_streaming.stateful.job_state import JobState
from culm_topics.chotki.records import (
    BlockVectorRecord,
    FieldJoiner,
    FieldRecord,
    block_partition,
    field_records,
    is_field_key,
    is_vector_key,
    piece_keys,
)
from culm_topics.records import rejection

_VECTOR: Final = b"V"
_COMMON: Final = b"C"
_CLASS_OF: Final = frozenset(b"OY")
_LIST: Final = ord("L")
CLASS_CONFLICT: Final = "chotki.class_conflict"
COMMON_VECTOR: Final = {0: Id.make(0, 3).pro}
"""The progress of source 0 that every replica knows from its start."""


def step(
    state: JobState, shard: int, rows: ShardRows, settings: ChotkiStateSettings
) -> Iterator[StagedRecord]:
    """Yield the records of the shard, in the order of their stages."""
    for key, value in rows.refused:
        yield StagedRecord(OutputStage.FIELDS, OutputTopic.REJECTED, key, value, None)
    operands, vectors = list(rows.operands), list(rows.vectors)
    if shard == block_partition(FIRST_BLOCK, settings.shards) and state.load(BLOBS, _COMMON) is None:
        operands[:0], vectors[:0] = _common_objects()
        state.save(BLOBS, _COMMON, b"")
    whole, refused = _joined(state, operands, settings)
    for value in refused:
        yield StagedRecord(OutputStage.FIELDS, OutputTopic.REJECTED, b"", value, None)
    rejected: list[bytes] = []
    obsolete: list[bytes] = []
    for key, record in _merge_fields(state, whole, vectors, settings, rejected, obsolete):
        yield StagedRecord(OutputStage.FIELDS, OutputTopic.STATE, key, record, shard)
    for value in rejected:
        yield StagedRecord(OutputStage.FIELDS, OutputTopic.REJECTED, b"", value, None)
    for key in obsolete:
        yield StagedRecord(OutputStage.VECTORS, OutputTopic.STATE, key, None, shard)
    for key, record in _raise_vectors(state, vectors):
        yield StagedRecord(OutputStage.VECTORS, OutputTopic.STATE, key, record, shard)


def restore_shard(state: JobState, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Restore a shard's state from the records that an earlier job has written, in their order.

    Raises `JobError` for a field with missing pieces.
    """
    joiner = FieldJoiner()
    whole = (joiner.take(offset, key, value or b"") for offset, (key, value) in enumerate(records))
    newest = dict(record for record in whole if record is not None)
    for key in joiner.incomplete:
        raise JobError(
            f"the job chotki has no checkpoint, and chotki.state has not all pieces of the field {key.hex()}",
            hint="restore the checkpoint, or create the chotki.* topics again: replicas send "
            "everything again",
        )
    for bucket in open_buckets(state, filter(is_field_key, newest)):
        for key in bucket.keys:
            field = FieldRecord.decode(newest[key])
            bucket.put(key, Kept(field.value, field.seen))
        bucket.flush()
    for key, value in newest.items():
        if is_vector_key(key):
            state.save(BLOBS, _VECTOR + key, BlockVectorRecord.decode(value).vector)
    if FIRST_BLOCK in newest:
        state.save(BLOBS, _COMMON, b"")


def _common_objects() -> tuple[list[Operand], list[VectorRow]]:
    (src, pro) = next(iter(COMMON_VECTOR.items()))
    operands = [Operand(key, value, src, pro, None) for key, value in sorted(COMMON_FIELDS.items())]
    block = vector_key(block_of(Id(0, 0)))
    return operands, [VectorRow(block, write_vector(COMMON_VECTOR), None)]


def _merge_fields(
    state: JobState,
    operands: Sequence[Operand],
    vectors: Sequence[VectorRow],
    settings: ChotkiStateSettings,
    rejected: list[bytes],
    obsolete: list[bytes],
) -> Iterator[tuple[bytes, bytes]]:
    bounds = _bounds(vectors)
    by_key: dict[bytes, list[Operand]] = defaultdict(list)
    for operand in operands:
        by_key[operand.key].append(operand)
    for bucket in open_buckets(state, by_key):
        befores = [bucket.get(key) for key in bucket.keys]
        new_operands = [by_key[key] for key in bucket.keys]
        values = _merged(bucket.keys, befores, new_operands, settings, rejected)
        for key, before, came, value in zip(bucket.keys, befores, new_operands, values, strict=True):
            after = Kept(value, _seen(key, before, came, bounds) if key[17] in SEEN_TYPES else None)
            if key[17] in _CLASS_OF:
                rejected += _class_conflicts(key, value, came)
            if after == before:
                continue
            bucket.put(key, after)
            if before is None or value != before.value:
                yield from field_records(key, value, after.seen)
                obsolete += [] if before is None else piece_keys(key, before.value)
        bucket.flush()


def _class_conflicts(key: bytes, class_id: bytes, operands: Sequence[Operand]) -> Iterator[bytes]:
    """Yield reports of other classes for an object: the first class that arrived holds (reference 3.1)."""
    id, _ = split_object_key(key)
    for other_class in dict.fromkeys(operand.value for operand in operands if operand.value != class_id):
        other = _class_text(other_class)
        text = f"{id} is of class {_class_text(class_id)}, but its record says class {other}"
        yield rejection(CLASS_CONFLICT, text, entry=other_class).encode()


def _class_text(value: bytes) -> str:
    return str(Id.unzip(value)) if value else "none"


def _merged(
    keys: Sequence[bytes],
    befores: Sequence[Kept | None],
    new_operands: Sequence[Sequence[Operand]],
    settings: ChotkiStateSettings,
    rejected: list[bytes],
) -> list[bytes]:
    """Return the value of each field, from its stored value and its operands."""
    values = [came[0].value for came in new_operands]
    by_type: dict[int, list[int]] = defaultdict(list)
    for index, (key, before, came) in enumerate(zip(keys, befores, new_operands, strict=True)):
        # For most types, a single operand that parses is its own merge.
        if before is not None or len(came) > 1 or key[17] not in MERGED_ALONE:
            by_type[key[17]].append(index)
    for code, places in by_type.items():
        fields = []
        for index in places:
            before = befores[index]
            operands = [] if before is None else [before.value]
            operands += [operand.value for operand in new_operands[index]]
            if code == _LIST and len(within := _within(operands, settings.max_list_bytes)) < len(operands):
                rejected.append(_list_full(keys[index], operands[-1], settings))
                operands = within
            fields.append(operands)
        for index, value in zip(places, merge_many(chr(code), fields), strict=True):
            values[index] = value
    return values


def _seen(
    key: bytes,
    before: Kept | None,
    operands: Sequence[Operand],
    bounds: dict[tuple[bytes, bytes], dict[int, int]],
) -> bytes | None:
    """Return the seen vector of a field; None if not all that was merged into it is known."""
    if before is not None and before.seen is None:
        return None
    seen = {} if before is None or before.seen is None else parse_vector(before.seen)
    for operand in operands:
        entries = _seen_of(operand, bounds)
        if entries is None:
            return None
        for src, pro in entries.items():
            seen[src] = max(pro, seen.get(src, 0))
    return write_vector(seen)


def _seen_of(operand: Operand, bounds: dict[tuple[bytes, bytes], dict[int, int]]) -> dict[int, int] | None:
    if operand.src is not None and operand.pro is not None:
        return {operand.src: operand.pro}
    if operand.origin is None:
        return None
    return bounds.get((_block_key(operand.key), operand.origin))


def _within(values: Sequence[bytes], max_bytes: int) -> list[bytes]:
    """Return the values of an append-only list that fit."""
    fitting: list[bytes] = []
    size = 0
    for value in values:
        size += len(value)
        if fitting and size > max_bytes:
            break
        fitting.append(value)
    return fitting


def _list_full(key: bytes, operand: bytes, settings: ChotkiStateSettings) -> bytes:
    id, letter = split_object_key(key)
    text = f"{id} {letter} is not appended to beyond {settings.max_list_bytes} bytes"
    return rejection(RecordTooLarge.code, text, entry=operand).encode()


def _bounds(vectors: Sequence[VectorRow]) -> dict[tuple[bytes, bytes], dict[int, int]]:
    """Return the vectors of blocks in each session's diffs: an upper bound of what its fields have seen."""
    bounds: dict[tuple[bytes, bytes], dict[int, int]] = defaultdict(dict)
    for row in vectors:
        if row.origin is not None:
            _raise(bounds[row.key, row.origin], row.vector)
    return bounds


def _raise_vectors(state: JobState, vectors: Sequence[VectorRow]) -> Iterator[tuple[bytes, bytes]]:
    by_key: dict[bytes, dict[int, int]] = defaultdict(dict)
    for row in vectors:
        if row.key != GLOBAL_VECTOR_KEY:
            _raise(by_key[row.key], row.vector)
    for key, entries in sorted(by_key.items()):
        blob = state.load(BLOBS, _VECTOR + key)
        before = {} if blob is None else parse_vector(blob)
        after = before | {src: max(pro, before.get(src, 0)) for src, pro in entries.items()}
        if blob is None or after != before:
            vector = write_vector(after)
            state.save(BLOBS, _VECTOR + key, vector)
            yield key, BlockVectorRecord(vector).encode()


def _raise(entries: dict[int, int], vector: bytes) -> None:
    for src, pro in parse_vector(vector).items():
        entries[src] = max(pro, entries.get(src, 0))


def _block_key(field: bytes) -> bytes:
    id = Id(int.from_bytes(field[1:9], "big"), int.from_bytes(field[9:17], "big"))
    return vector_key(block_of(id))


def _joined(
    state: JobState, operands: Sequence[Operand], settings: ChotkiStateSettings
) -> tuple[list[Operand], list[bytes]]:
    """Return whole operands, and records of `rejected` for those that do not parse."""
    if all(operand.pieces == 1 for operand in operands):
        return list(operands), []
    kept = KeptPieces(state, settings.max_open_operands)
    whole: list[Operand] = []
    refused: list[bytes] = []
    for operand in operands:
        if operand.pieces == 1:
            whole.append(operand)
            continue
        value = kept.take(operand.key + (operand.origin or b""), operand.piece, operand.pieces, operand.value)
        if value is None:
            continue
        try:
            value = checked_operand(operand.key, value, operand.compat)
        except ChotkiError as error:
            refused.append(rejection(error.code, str(error), entry=value).encode())
            continue
        whole.append(operand._replace(value=value, piece=0, pieces=1))
    kept.save()
    return whole, refused
