"""Keys and values of the `chotki.*` topics.

- `keys`: their keys, and the partition of a source or a block; `shape`: items that several records share.
- `received`: records of edges and writers. `state`: the merged state of the job; `large_fields`: its
  values in pieces.
- `operations`: vectors, sources and the states of sessions, for operators.
"""

from culm_topics.chotki.records.keys import (
    block_partition,
    epoch_key,
    is_epoch_key,
    is_field_key,
    is_vector_key,
    session_key,
    source_key,
    source_partition,
    split_session_key,
    split_source_key,
)
from culm_topics.chotki.records.large_fields import (
    FieldHead,
    FieldJoiner,
    FieldPieces,
    PieceRecord,
    field_records,
    is_piece_key,
    piece_keys,
)
from culm_topics.chotki.records.operations import (
    Behind,
    OpenSyncItem,
    SessionRecord,
    SourceRecord,
    SourceState,
    VectorRecord,
)
from culm_topics.chotki.records.received import (
    MAX_PACKET_BYTES,
    MAX_PIECE_BYTES,
    CommitRecord,
    OperandReader,
    OperandRecord,
    PacketRecord,
)
from culm_topics.chotki.records.shape import Ends, RecordOrigin
from culm_topics.chotki.records.state import BlockVectorRecord, EpochRecord, FieldRecord

__all__ = [
    "MAX_PACKET_BYTES",
    "MAX_PIECE_BYTES",
    "Behind",
    "BlockVectorRecord",
    "CommitRecord",
    "Ends",
    "EpochRecord",
    "FieldHead",
    "FieldJoiner",
    "FieldPieces",
    "FieldRecord",
    "OpenSyncItem",
    "OperandReader",
    "OperandRecord",
    "PacketRecord",
    "PieceRecord",
    "RecordOrigin",
    "SessionRecord",
    "SourceRecord",
    "SourceState",
    "VectorRecord",
    "block_partition",
    "epoch_key",
    "field_records",
    "is_epoch_key",
    "is_field_key",
    "is_piece_key",
    "is_vector_key",
    "piece_keys",
    "session_key",
    "source_key",
    "source_partition",
    "split_session_key",
    "split_source_key",
]
