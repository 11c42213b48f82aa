"""CIDs and records of `dag.*`, drawn."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, RAW, Cid, cid_of, make_cid
from culm_models.dag.blocks.multihash import BLAKE2B_256, SHA2_512
from culm_models.dag.publish.states import PublishState
from culm_models.dag.wire.messages import CHUNK_SIZE, SHARD_SIZE_MAX
from culm_topics.dag.records import (
    BlockedRecord,
    BlockPlace,
    CompletePublish,
    FirstLinks,
    HeadsRecord,
    NodeRecord,
    OrderRecord,
    PublishedRecord,
    PublishRecord,
    ShardChunkRecord,
    ShardIndexRecord,
    first_links,
)

uints = st.integers(0, 2**64 - 1) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
ids = st.binary(min_size=32, max_size=32)
peers = st.none() | ids
blobs = st.binary(min_size=1, max_size=300)
nodes = st.binary(max_size=4).map(lambda data: cid_of(DAG_CBOR, data))
codecs = st.sampled_from([CAR, DAG_CBOR, RAW])
shards = st.one_of(
    st.builds(cid_of, codecs, st.binary(max_size=4)),
    st.builds(lambda codec, digest: make_cid(1, codec, SHA2_512, digest * 2), codecs, ids),
    st.builds(lambda codec, digest: make_cid(1, codec, BLAKE2B_256, digest), codecs, ids),
)
links = shards | st.builds(lambda data: make_cid(1, RAW, 0, data), st.binary(max_size=400))
first_nodes = st.builds(
    lambda found, more: FirstLinks(found.total + more, found.links),
    st.lists(nodes, max_size=6).map(first_links),
    st.integers(0, 2**20),
)
first_any = st.lists(links, max_size=6).map(first_links)
places = st.builds(BlockPlace, shards, st.integers(0, 2**26), st.integers(0, 2**21))


def _published(keys: list[Cid], *items: Any) -> PublishedRecord:
    return PublishedRecord(keys[-1], tuple(keys), *items)


RECORDS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "node": ("dag.nodes", st.builds(NodeRecord, blobs, peers)),
    "publish": ("dag.publishes", st.builds(PublishRecord, nodes, st.none() | nodes, blobs, uints, peers)),
    "chunk": (
        "dag.shards",
        st.builds(
            lambda whole, data, space, peer: ShardChunkRecord(
                whole * CHUNK_SIZE + len(data), data, space, peer
            ),
            st.integers(0, SHARD_SIZE_MAX // CHUNK_SIZE - 1),
            blobs,
            ids,
            peers,
        ),
    ),
    "blocked": ("dag.blocked", st.builds(BlockedRecord, st.text(max_size=80), uints)),
    "index": (
        "dag.shard-index",
        st.builds(
            ShardIndexRecord,
            st.integers(2**27 - 2**20, SHARD_SIZE_MAX),
            st.integers(1, 2**32 - 1),
            st.lists(links, max_size=3).map(tuple),
            st.lists(places, max_size=5).map(tuple),
        ),
    ),
    "heads": ("dag.heads", st.builds(HeadsRecord, first_nodes, uints, first_nodes, first_any, first_any)),
    "order": ("dag.order", st.builds(OrderRecord, uints, st.lists(nodes, max_size=6).map(tuple))),
    "published": (
        "dag.published",
        st.builds(
            _published,
            st.lists(nodes, min_size=1, max_size=6),
            st.integers(1, 2**64 - 1),
            st.sampled_from(PublishState),
            first_nodes,
            first_nodes,
            st.none() | st.builds(CompletePublish, nodes, links, nodes, st.none() | shards),
        ),
    ),
}
