"""Values of every record of every topic, drawn."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from culm_models.bamboo.hashes import YASMF
from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.sync.progress import Progress
from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.multihash import BLAKE2B_256, SHA2_512
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.chotki import records as chotki
from culm_topics.dag import records as dags
from culm_topics.logs import records as logs
from culm_topics.p2panda.documents import record as documents
from culm_topics.records import RejectedRecord
from culm_topics.sds import records as sds
from culm_topics.sds.keys import MAX_ID_BYTES

Strategy = st.SearchStrategy[Any]

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
blobs = st.binary(max_size=300) | st.integers(65530, 65540).map(bytes)
texts = st.text(max_size=80)
keys = st.binary(min_size=32, max_size=32)
connectors = st.binary(min_size=8, max_size=32)
pairs = st.dictionaries(uints, uints, max_size=9).map(lambda known: tuple(sorted(known.items())))
hashes = st.sampled_from([34, 66]).flatmap(lambda size: st.binary(min_size=size, max_size=size))


def words(literal: Any) -> Strategy:
    """One of the words of a `Literal`."""
    return st.sampled_from(get_args(literal))


def tuples(items: Strategy, maximum: int = 6) -> Strategy:
    return st.lists(items, max_size=maximum).map(tuple)


# Replicated logs.
log_keys = keys.flatmap(lambda key: st.sampled_from([key + bytes(8), key + bytes(8) + b"\x01"]))
rows = st.integers(0, 5).flatmap(
    lambda count: st.binary(min_size=count * logs.ROW_SIZE, max_size=count * logs.ROW_SIZE)
)
runs = st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 99), max_size=40, unique=True).map(
    lambda numbers: tuple(zip(*[iter(sorted(numbers)[: len(numbers) & ~1])] * 2, strict=True))
)
payload_chunks = st.builds(
    lambda whole, last, rest: logs.PayloadChunkRecord(
        whole * logs.PAYLOAD_CHUNK_BYTES + len(last) + rest,
        whole * logs.PAYLOAD_CHUNK_BYTES,
        last if rest == 0 else bytes(logs.PAYLOAD_CHUNK_BYTES),
    ),
    st.integers(0, 9) | st.integers(0, 2**32 - 3),
    st.binary(min_size=1, max_size=300),
    st.sampled_from([0] * 9 + [logs.PAYLOAD_CHUNK_BYTES]),
)
lifts = st.dictionaries(texts, blobs, max_size=4).map(lambda known: tuple(sorted(known.items())))
sources = st.tuples(texts, uints, uints)
LOGS: dict[type, Strategy] = {
    logs.EntryRecord: st.builds(logs.EntryRecord, blobs, blobs, texts, keys, uints, connectors),
    logs.LogRecord: st.builds(logs.LogRecord, st.integers(1, 2**64 - 1), blobs, blobs, hashes, texts),
    RejectedRecord: st.builds(
        RejectedRecord,
        *(texts, texts, st.none() | blobs, st.none() | blobs, st.none() | keys),
        *(st.none() | sources, st.none() | uints, st.none() | blobs),
    ),
    logs.ReceiptRecord: st.builds(logs.ReceiptRecord, tuples(st.tuples(keys, uints, uints), 30)),
    logs.VersionVectorRecord: st.builds(logs.VersionVectorRecord, uints),
    logs.BlockSummary: st.builds(
        logs.BlockSummary, pairs, uints, uints, lifts, st.integers(0, 1), tuples(uints, 30), rows
    ),
    logs.BlockHeights: st.builds(logs.BlockHeights, rows),
    logs.BlockProgress: st.builds(logs.BlockProgress, st.integers(1, 65_535), pairs),
    logs.FragmentRecord: st.builds(logs.FragmentRecord, blobs, hashes),
    logs.PayloadChunkRecord: payload_chunks,
    logs.HoldingRecord: st.builds(logs.HoldingRecord, log_keys, runs, runs, runs),
    logs.CoverageRecord: st.builds(logs.CoverageRecord, runs, runs, runs, uints),
}

# Documents of p2panda.
operation_ids = st.binary(min_size=32, max_size=32).map(lambda digest: YASMF.prefix + digest)
views = st.lists(operation_ids, min_size=1, max_size=4, unique=True).map(lambda ids: tuple(sorted(ids)))
document_fields = st.dictionaries(
    texts, st.tuples(st.binary(max_size=40), operation_ids, keys, uints, uints), max_size=5
).map(lambda fields: tuple(documents.DocumentField(name, *rest) for name, rest in sorted(fields.items())))
states = st.tuples(st.just("current"), document_fields) | st.just(("deleted", ()))
problems = tuples(st.builds(documents.DocumentProblem, operation_ids, texts))
DOCUMENTS: dict[type, Strategy] = {
    documents.DocumentRecord: st.builds(
        lambda schema, owner, state, version, view, waiting, missing, problems: documents.DocumentRecord(
            schema, owner, state[0], version, view, state[1], waiting, missing, problems
        ),
        *(texts, keys, states, uints.filter(bool), views, uints, tuples(operation_ids), problems),
    )
}

# Channels of SDS.
profiles = words(Profile)
ids = st.text(min_size=1, max_size=80) | st.just("i" * MAX_ID_BYTES)
hints = st.none() | st.binary(max_size=40) | st.just(bytes(1024))
peers = st.none() | keys
details = st.dictionaries(
    st.text(min_size=1, max_size=16),
    st.none()
    | st.booleans()
    | uints
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.binary(max_size=40)
    | tuples(texts, 30),
    max_size=9,
)
entries = st.builds(HistoryEntry, ids, hints, st.none() | texts)
SDS: dict[type, Strategy] = {
    sds.SdsInRecord: st.builds(sds.SdsInRecord, profiles, blobs, peers, hints, st.none() | connectors),
    sds.SdsCommandRecord: st.builds(
        sds.SdsCommandRecord,
        *(words(sds.SdsCommand), profiles, ids, st.binary(min_size=16, max_size=16)),
        *(st.none() | blobs, st.none() | ids, details, peers),
    ),
    sds.SdsMessageRecord: st.builds(sds.SdsMessageRecord, profiles, ids, texts, uints, blobs, hints),
    sds.SdsIndexRecord: st.builds(
        sds.SdsIndexRecord,
        *(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), uints, texts),
        *(st.integers(0, 2**32 - 1), st.binary(min_size=4, max_size=4), hints),
    ),
    sds.SdsOwnerRecord: st.builds(sds.SdsOwnerRecord, words(sds.OwnedRole), profiles, peers, uints),
    sds.SdsOutRecord: st.builds(sds.SdsOutRecord, profiles, words(sds.SdsOutKind), ids, ids, blobs),
    sds.SdsEventRecord: st.builds(
        sds.SdsEventRecord,
        *(st.integers(1, 2**64 - 1), words(sds.SdsEventKind), st.none() | ids, texts, uints),
        *(details, st.none() | blobs),
    ),
    sds.SdsFetchRecord: st.builds(
        sds.SdsFetchRecord, profiles, st.lists(entries, min_size=1, max_size=30).map(tuple), uints
    ),
    sds.SdsChannelRecord: st.builds(sds.SdsChannelRecord, profiles, *[uints] * 9, st.none() | uints),
    sds.SdsParticipantRecord: st.builds(sds.SdsParticipantRecord, uints, uints, uints),
    sds.SdsAckRecord: st.builds(
        sds.SdsAckRecord, words(sds.AckState), tuples(texts, 64), uints, st.none() | uints
    ),
}

# Chotki.
vectors = st.dictionaries(uints, st.integers(0, 2**52 - 1), max_size=5).map(write_vector)
bringers = st.builds(chotki.RecordOrigin, keys, uints, uints)
points = st.builds(Id, uints, st.integers(0, 2**52 - 1))
progress = st.builds(Progress, uints, uints, uints, uints)
compats = st.sampled_from(Compat)
traces = st.just(b"") | st.binary(min_size=10, max_size=10)
CHOTKI: dict[type, Strategy] = {
    chotki.PacketRecord: st.builds(chotki.PacketRecord, bringers, uints, blobs, compats),
    chotki.OperandRecord: st.builds(
        chotki.OperandRecord,
        bringers,
        blobs,
        st.integers(0, 3),
        st.integers(4, 1024),
        compats,
    ),
    chotki.CommitRecord: st.builds(chotki.CommitRecord, bringers, points, vectors, vectors, pairs),
    chotki.FieldRecord: st.builds(chotki.FieldRecord, blobs, st.none() | vectors),
    chotki.FieldHead: st.builds(
        chotki.FieldHead,
        st.builds(chotki.FieldPieces, st.binary(min_size=16, max_size=16), uints),
        st.none() | vectors,
    ),
    chotki.PieceRecord: st.builds(chotki.PieceRecord, blobs),
    chotki.BlockVectorRecord: st.builds(chotki.BlockVectorRecord, vectors),
    chotki.EpochRecord: st.builds(chotki.EpochRecord, uints, vectors, pairs, pairs, pairs),
    chotki.VectorRecord: st.builds(
        chotki.VectorRecord, vectors, uints, uints, tuples(st.builds(chotki.Behind, uints, uints, uints))
    ),
    chotki.SessionRecord: st.builds(
        chotki.SessionRecord,
        *(texts, uints, texts, uints, traces, traces, uints, uints, progress, progress),
        tuples(st.builds(chotki.OpenSyncItem, uints, uints, uints, uints), 30),
        *(uints, uints, texts, texts, uints),
    ),
    chotki.SourceRecord: st.builds(
        chotki.SourceRecord, texts, st.binary(min_size=16, max_size=16), words(chotki.SourceState), uints
    ),
}

# DAGs.
data = st.binary(min_size=1, max_size=300)
nodes = st.binary(max_size=4).map(lambda data: cid_of(DAG_CBOR, data))
codecs = st.sampled_from([CAR, DAG_CBOR, RAW])
shards = st.one_of(
    st.builds(cid_of, codecs, st.binary(max_size=4)),
    st.builds(lambda codec, digest: make_cid(1, codec, SHA2_512, digest * 2), codecs, keys),
    st.builds(lambda codec, digest: make_cid(1, codec, BLAKE2B_256, digest), codecs, keys),
)
links = shards | st.builds(lambda data: make_cid(1, RAW, 0, data), st.binary(max_size=400))
first_nodes = st.builds(
    lambda first, more: dags.FirstLinks(first.total + more, first.links),
    st.lists(nodes, max_size=6).map(dags.first_links),
    st.integers(0, 2**20),
)
first_any = st.lists(links, max_size=6).map(dags.first_links)
places = st.builds(dags.BlockPlace, shards, st.integers(0, 2**26), st.integers(0, 2**21))
completes = st.builds(dags.CompletePublish, nodes, links, nodes, st.none() | shards)


def _published(tip_key: list[Cid], *items: Any) -> dags.PublishedRecord:
    return dags.PublishedRecord(tip_key[-1], tuple(tip_key), *items)


DAG: dict[type, Strategy] = {
    dags.NodeRecord: st.builds(dags.NodeRecord, data, peers),
    dags.PublishRecord: st.builds(dags.PublishRecord, nodes, st.none() | nodes, data, uints, peers),
    dags.ShardChunkRecord: st.builds(
        lambda whole, data, *who: dags.ShardChunkRecord(whole * CHUNK_SIZE + len(data), data, *who),
        st.integers(0, SHARD_SIZE_MAX // CHUNK_SIZE - 1),
        *(data, keys, peers),
    ),
    dags.BlockedRecord: st.builds(dags.BlockedRecord, texts, uints),
    dags.ShardIndexRecord: st.builds(
        dags.ShardIndexRecord,
        *(st.integers(2**27 - 2**20, SHARD_SIZE_MAX), st.integers(1, 2**32 - 1)),
        *(tuples(links, 3), tuples(places, 5)),
    ),
    dags.HeadsRecord: st.builds(dags.HeadsRecord, first_nodes, uints, first_nodes, first_any, first_any),
    dags.OrderRecord: st.builds(dags.OrderRecord, uints, tuples(nodes)),
    dags.PublishedRecord: st.builds(
        _published,
        *(st.lists(nodes, min_size=1, max_size=6), st.integers(1, 2**64 - 1), st.sampled_from(PublishState)),
        *(first_nodes, first_nodes, st.none() | completes),
    ),
}

RECORDS: dict[type, Strategy] = {**LOGS, **DOCUMENTS, **SDS, **CHOTKI, **DAG}
