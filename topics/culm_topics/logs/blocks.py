"""The present contents of `blocks` and `block-vectors`: log heights and fingerprints by block.

A connector starts from `blocks`: a million logs are some thousand records. `Blocks.applied` is the position
from which the records of `logs` (or `receipts`) must be read in order to miss nothing.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from xxhash import xxh64_intdigest

from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records.blocks import (
    LOG_SIZE,
    ROW_SIZE,
    BlockHeights,
    BlockKey,
    BlockKind,
    BlockProgress,
    BlockSummary,
    Offsets,
    ProgressKey,
    split_block_key,
)
from culm_topics.readers.batch import PassedOver, TopicMessage
from culm_topics.readers.partitions import read_to_end
from culm_topics.records.keys import PEER_ID_SIZE, check_peer_key

_ATTEMPTS = 3
_EVERY = 1_000

Progress = Callable[[int], None]
"""Called now and then with the number of records read so far."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of one set.

    `heights` is 48 bytes per log (public key, log id, seq_num), sorted, each log once. `fingerprints` is by
    name of the lift: lanes, most significant byte first. `version` is the input from which the block was
    made: ((partition, next offset), ...).
    """

    name: bytes
    block_bits: int
    block: int
    version: Offsets
    log_count: int
    entry_count: int
    fingerprints: Mapping[str, bytes]
    heights: bytes = field(repr=False)

    @property
    def schema_id(self) -> str:
        """The schema of a block from `blocks`. Raises `RecordError` if the name is not text."""
        try:
            return self.name.decode()
        except UnicodeDecodeError as error:
            raise RecordError("blocks key: the schema id is not UTF-8") from error

    @property
    def peer_id(self) -> bytes:
        """The peer of a block from `block-vectors`."""
        assert len(self.name) == PEER_ID_SIZE
        return self.name


@dataclass(frozen=True, slots=True)
class Blocks:
    """All blocks of one `block_bits` (None: there are none), by set and block.

    `applied`: for each partition of the input, all records before that offset are included in the blocks.
    `torn`: the blocks (name, block) whose heights could not be assembled; a reader that needs them reads the
    input itself. `records` is the number of records read. `passed_over` counts malformed records, each of
    which costs its block.
    """

    block_bits: int | None
    blocks: tuple[Block, ...]
    applied: Mapping[int, int]
    torn: tuple[tuple[bytes, int], ...]
    records: int
    passed_over: PassedOver = field(default_factory=lambda: PassedOver("blocks"))

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)


def read_blocks(
    settings: KafkaSettings,
    schema_ids: Collection[str] | None = None,
    *,
    block_bits: int | None = None,
    progress: Progress | None = None,
) -> Blocks:
    """Return the blocks of these schemas (by default all), of the block bits that are most up to date.

    Raises `TopicMissing`, `KafkaFailure`.
    """
    names = None if schema_ids is None else {schema_id.encode() for schema_id in schema_ids}
    return _read(settings, "blocks", names, block_bits, progress)


def read_block_vectors(
    settings: KafkaSettings,
    peer_ids: Collection[bytes] | None = None,
    *,
    block_bits: int | None = None,
    progress: Progress | None = None,
) -> Blocks:
    """Return the version vectors of these peers (by default all) by block. See `read_blocks` for the rest."""
    return _read(settings, "block-vectors", None if peer_ids is None else set(peer_ids), block_bits, progress)


def _read(
    settings: KafkaSettings,
    topic: str,
    names: Collection[bytes] | None,
    block_bits: int | None,
    progress: Progress | None,
) -> Blocks:
    """Read until no block is torn: compaction may remove chunks while they are read, rarely."""
    for _ in range(_ATTEMPTS):
        table = BlockTable(names, topic)
        for message in read_to_end(settings, topic):
            table.add(message)
            if progress is not None and not table.records % _EVERY:
                progress(table.records)
        blocks = table.blocks(block_bits)
        if len(blocks.torn) == table.unreadable:
            break
    if progress is not None:
        progress(blocks.records)
    return blocks


class BlockTable:
    """The latest record of each key, fed in the order of each partition; restricted to `names` if given."""

    def __init__(self, names: Collection[bytes] | None = None, topic: str = "blocks") -> None:
        self._names = names
        self._values: dict[BlockKey, TopicMessage] = {}
        self._progress: dict[ProgressKey, BlockProgress] = {}
        self.records = 0
        self.unreadable = 0
        """Number of blocks torn by a malformed record, as of the last call of `blocks`."""
        self.passed_over = PassedOver(topic)

    def add(self, message: TopicMessage) -> None:
        """Apply one record: an empty value removes, and a malformed record is skipped."""
        self.records += 1
        try:
            key = split_block_key(message.key)
            if isinstance(key, ProgressKey):
                if message.value:
                    self._progress[key] = BlockProgress.decode(message.value)
                else:
                    self._progress.pop(key, None)
                return
            check_name(self.passed_over.topic, key.name)
        except RecordError as error:
            self.passed_over.add(message, error)
            return
        if self._names is None or key.name in self._names:
            if message.value:
                self._values[key] = message
            else:
                self._values.pop(key, None)

    def blocks(self, block_bits: int | None = None) -> Blocks:
        """Return the blocks of the given block bits, or of the block bits that are most up to date."""
        bits = self.furthest_bits() if block_bits is None else block_bits
        blocks: list[Block] = []
        torn: list[tuple[bytes, int]] = []
        self.unreadable = 0
        for key in sorted(self._values, key=lambda key: (key.name, key.block)):
            if key.kind is not BlockKind.SUMMARY or key.block_bits != bits:
                continue
            try:
                block = read_block(key, self._values[key].value, self._value_of)
            except RecordError as error:
                self.passed_over.add(self._values[key], error)
                self.unreadable += 1
                torn.append((key.name, key.block))
                continue
            if block is None:
                torn.append((key.name, key.block))
                continue
            blocks.append(block)
        applied = {} if bits is None else self._applied(bits)
        return Blocks(bits, tuple(blocks), applied, tuple(torn), self.records, self.passed_over)

    def _value_of(self, key: BlockKey) -> bytes | None:
        message = self._values.get(key)
        return None if message is None else message.value

    def furthest_bits(self) -> int | None:
        """Return the block bits whose shards have applied most, or else those with most records."""
        known = {key.block_bits for key in self._progress} | {key.block_bits for key in self._values}
        come = {bits: (sum(self._applied(bits).values()), bits) for bits in known}
        return max(come, key=lambda bits: come[bits]) if come else None

    def _applied(self, block_bits: int) -> dict[int, int]:
        """Return the offsets that every shard has applied; empty until every shard has reported."""
        rows = [row for key, row in self._progress.items() if key.block_bits == block_bits]
        shards = max((row.shards for row in rows), default=0)
        current = [dict(row.applied) for row in rows if row.shards == shards]
        if not current or len(current) < shards:
            return {}
        return {
            partition: min(applied.get(partition, 0) for applied in current)
            for partition in sorted(set().union(*current))
        }


def read_block(key: BlockKey, summary: bytes, value_of: Callable[[BlockKey], bytes | None]) -> Block | None:
    """Return the block of a summary; None if chunks are missing or of another version.

    `value_of` returns the value under the key of a chunk, or None. Raises `RecordError` if the summary or a
    chunk is malformed.
    """
    row = BlockSummary.decode(summary)
    chunks: list[bytes] = []
    for number, digest in enumerate(row.chunks):
        value = value_of(BlockKey(BlockKind.HEIGHTS, key.block_bits, key.block, key.name, row.slot, number))
        if value is None:
            return None
        chunk = BlockHeights.decode(value).heights
        if xxh64_intdigest(chunk) != digest:
            return None
        chunks.append(chunk)
    heights = with_recent(b"".join(chunks), row.recent)
    if len(heights) != row.log_count * ROW_SIZE:
        return None
    return Block(
        key.name,
        key.block_bits,
        key.block,
        row.version,
        row.log_count,
        row.entry_count,
        dict(row.fingerprints),
        heights,
    )


def check_name(topic: str, name: bytes) -> None:
    """Raise `RecordError` for a name that no set of the topic can have."""
    if topic == "block-vectors":
        check_peer_key(name)
        return
    try:
        name.decode()
    except UnicodeDecodeError as error:
        raise RecordError("blocks key: the schema id is not UTF-8") from error


def with_recent(heights: bytes, recent: bytes) -> bytes:
    """Return `heights` updated with the rows of `recent`; both sorted, each log once.

    Raises `RecordError` if a length is not a multiple of the row size.
    """
    if len(heights) % ROW_SIZE or len(recent) % ROW_SIZE:
        raise RecordError(f"blocks: heights are not rows of {ROW_SIZE} bytes")
    if not heights or not recent:
        return heights or recent
    pieces: list[bytes] = []
    done, rows = 0, len(heights) // ROW_SIZE
    for start in range(0, len(recent), ROW_SIZE):
        row = recent[start : start + ROW_SIZE]
        log = row[:LOG_SIZE]
        low, high = done, rows
        while low < high:
            middle = (low + high) // 2
            if heights[middle * ROW_SIZE : middle * ROW_SIZE + LOG_SIZE] < log:
                low = middle + 1
            else:
                high = middle
        pieces += (heights[done * ROW_SIZE : low * ROW_SIZE], row)
        done = low
        if low < rows and heights[low * ROW_SIZE : low * ROW_SIZE + LOG_SIZE] == log:
            done += 1
    pieces.append(heights[done * ROW_SIZE :])
    return b"".join(pieces)
