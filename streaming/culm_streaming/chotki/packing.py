"""Turns a batch of records into rows by shard: the stateless half of the job (reference 9.2, rule 5).

Everything is checked here once more: a malformed packet, value or key goes to `rejected`, and nothing of its
record is merged. Only data that an edge accepted with `compat=go`, and marked so, is merged as the Go replica
merges it. Packets of one source and session that build on each other become one run to count.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import LetterUnknown
from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.packets.live import read_live
from culm_models.chotki.packets.packet import LIVE_LETTERS, parse
from culm_models.chotki.rdx import check_value, merge, write_vector
from culm_models.errors import CulmError
from culm_streaming.chotki.rows import (
    EPOCHS_SHARD,
    TOPICS,
    CommitRow,
    EpochRows,
    InputTopic,
    MarkRow,
    Operand,
    PieceRow,
    Place,
    Run,
    ShardRows,
    VectorRow,
)
from culm_topics.chotki.records import (
    CommitRecord,
    OperandReader,
    PacketRecord,
    block_partition,
    is_field_key,
    is_vector_key,
    session_key,
    split_session_key,
    split_source_key,
)
from culm_topics.chotki.records.shape import RecordOrigin
from culm_topics.errors import RecordError
from culm_topics.records import reject_malformed

Record = tuple[bytes | None, bytes | None, int, int, int]
"""(key, value, partition, offset, time of writing in ms)"""

FIRST_BLOCK = object_key(Id(0, 0), "Y")


@dataclass(frozen=True, slots=True)
class Packed:
    """The rows of one shard from one batch."""

    shard: int
    place: Place
    blob: bytes


class _Batch:
    """The rows of a batch while it is read."""

    def __init__(self, shards: int) -> None:
        self.rows: dict[int, ShardRows] = defaultdict(ShardRows)
        self.epochs = EpochRows()
        self.operands = OperandReader()
        self.block_vectors: dict[bytes, dict[int, int]] = defaultdict(dict)
        """The entries that live packets set in a block's vector, by its key: the greatest of each source."""
        self._shards = shards
        self._shard_of: dict[bytes, int] = {}

    def of_key(self, key: bytes) -> ShardRows:
        # Keys that differ only in the last three bytes of the progress share a block: few blocks, many keys.
        block = key[1:14]
        shard = self._shard_of.get(block)
        if shard is None:
            shard = self._shard_of[block] = block_partition(key, self._shards)
        return self.rows[shard]

    def raise_block(self, key: bytes, entry: Id) -> None:
        """Raise an entry of a block's vector for a live packet."""
        entries = self.block_vectors[key]
        entries[entry.src] = max(entry.pro, entries.get(entry.src, 0))

    def packed(self, position: Place) -> Iterator[Packed]:
        for key, entries in self.block_vectors.items():
            self.of_key(key).vectors.append(VectorRow(key, write_vector(entries), None))
        for shard, rows in sorted(self.rows.items()):
            yield Packed(shard, position, rows.pack())
        yield Packed(EPOCHS_SHARD, position, self.epochs.pack())


def pack_records(source: InputTopic, records: Iterable[Record], shards: int, prefix: str) -> Iterator[Packed]:
    """Yield the rows of each shard, and those of the epochs; nothing for an empty batch."""
    batch = _Batch(shards)
    marks: dict[int, MarkRow] = {}
    first: tuple[int, int] | None = None
    for key, value, partition, offset, written_ms in records:
        first = first or (partition, offset)
        before = marks.get(partition, MarkRow(int(source), partition, 0, 0))
        marks[partition] = before._replace(
            offset=max(offset + 1, before.offset), written_ms=max(written_ms, before.written_ms)
        )
        try:
            _TAKE[source](batch, key, value, (partition, offset))
        except CulmError as error:
            where = (prefix + TOPICS[source], partition, offset)
            batch.rows[offset % shards].refused.append(reject_malformed(error, value, where))
    if first is None:
        return
    position = (int(source), *first)
    batch.epochs.marks = sorted(marks.values())
    # The shard of the first block always gets rows: it begins with the common objects.
    batch.of_key(FIRST_BLOCK)
    yield from batch.packed(position)


def _take_packet(batch: _Batch, key: bytes | None, value: bytes | None, at: tuple[int, int]) -> None:
    src = split_source_key(key)
    record = PacketRecord.decode(value)
    packet = parse(record.packet, compat=record.compat)
    if packet.letter not in LIVE_LETTERS:
        raise LetterUnknown(f"a packet {packet.letter} instead of a live one")
    live = read_live(packet, record.packet, compat=record.compat)
    if live.id.src != src:
        raise RecordError("chotki.packets: the key is not the packet's source")
    block, entry = vector_key(live.block), live.entry
    # All that a packet writes is in one block.
    operands = batch.of_key(block).operands
    writes = live.writes
    if record.compat is Compat.GO:
        writes = [(field, checked_operand(field, operand, Compat.GO)) for field, operand in writes]
    operands += [Operand(field, operand, entry.src, entry.pro, None) for field, operand in writes]
    batch.raise_block(block, entry)
    if live.counts:
        _count(batch.epochs.runs, Run(src, record.after, live.entry.pro, _name(record.origin), *at))


def _count(runs: list[Run], new: Run) -> None:
    """Add a run, or extend the last one if the new run continues it."""
    if runs:
        last = runs[-1]
        if last[0] == new.src and last.origin == new.origin and last.pro == new.after <= new.pro:
            runs[-1] = last._replace(pro=new.pro)
            return
    runs.append(new)


def _take_operand(batch: _Batch, key: bytes | None, value: bytes | None, at: tuple[int, int]) -> None:
    if key is None or not (is_field_key(key) or is_vector_key(key)):
        raise RecordError("chotki.fields: the key is no store key")
    origin, operand, piece, pieces, compat = batch.operands.read(value)
    name = session_key(origin.edge, origin.session)
    if is_vector_key(key):
        check_value("V", operand)
        batch.of_key(key).vectors.append(VectorRow(key, operand, name))
        return
    if pieces == 1:
        operand = checked_operand(key, operand, compat)
    else:
        batch.epochs.pieces.append(PieceRow(key + name, piece, pieces, *at))
    batch.of_key(key).operands.append(Operand(key, operand, None, None, name, piece, pieces, compat))


def checked_operand(key: bytes, operand: bytes, compat: Compat) -> bytes:
    """Return a whole operand of a field, after checking that it parses as its type.

    With `Compat.GO`, return the part that a merge reads. Raises `ChotkiError`.
    """
    letter = chr(key[17])
    if compat is Compat.GO:
        return merge(letter, [operand])
    check_value(letter, operand)
    return operand


def _take_commit(batch: _Batch, key: bytes | None, value: bytes | None, at: tuple[int, int]) -> None:
    record = CommitRecord.decode(value)
    edge, session = split_session_key(key)
    if (edge, session) != (record.origin.edge, record.origin.session):
        raise RecordError("chotki.commits: the key is not the session's")
    batch.epochs.commits.append(
        CommitRow(record.vector, record.after, record.ends, _name(record.origin), *at)
    )


_TAKE = {InputTopic.PACKETS: _take_packet, InputTopic.FIELDS: _take_operand, InputTopic.COMMITS: _take_commit}


def _name(origin: RecordOrigin) -> bytes:
    return session_key(origin.edge, origin.session)
