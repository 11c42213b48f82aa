"""Values of DAG-CBOR, drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, DAG_JSON, DAG_PB, RAW, SHA2_256, make_cid
from culm_models.dag.blocks.multihash import BLAKE2B_256

V1 = st.builds(
    make_cid,
    st.just(1),
    st.sampled_from([RAW, DAG_PB, DAG_CBOR, DAG_JSON, CAR]),
    st.sampled_from([SHA2_256, BLAKE2B_256]),
    st.binary(min_size=32, max_size=32),
)
V0 = st.builds(make_cid, st.just(0), st.just(DAG_PB), st.just(SHA2_256), st.binary(min_size=32, max_size=32))
IDENTITIES = st.builds(make_cid, st.just(1), st.just(RAW), st.just(0), st.binary(max_size=40))
CIDS = V1 | V0 | IDENTITIES
LINKS = V1
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.binary(max_size=40)
    | CIDS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
