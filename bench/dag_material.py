"""Nodes, UCANs and blocks for the benchmarks of DAG replication, identical in every run."""

from __future__ import annotations

import random
from functools import cache

from culm_models.dag.blocks.cid import CAR, DAG_CBOR, Cid, cid_of
from culm_models.dag.replica.codec import encode_append, encode_node, proof_value
from culm_models.dag.ucan.did_key import did_key, did_text
from culm_models.dag.ucan.signing import issue_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.keys import KeyPair

_SOURCE = b"culm bench: DAG replication and publishing"


def _cid(source: random.Random, codec: int = DAG_CBOR) -> Cid:
    return cid_of(codec, source.randbytes(16))


def appends(count: int) -> list[bytes]:
    """Return appends of four shards on a prior, some 240 bytes each."""
    source = random.Random(_SOURCE)
    return [encode_append([_cid(source, CAR) for _ in range(4)], _cid(source)).data for _ in range(count)]


def leaf(source: random.Random, key: KeyPair) -> tuple[Ucan, dict[str, Cid]]:
    """Return a UCAN that authorises one publish by the id itself, and the CIDs that it names."""
    named = {name: _cid(source) for name in ("link", "origin", "prior")}
    capability = {"can": "dag/publish", "with": did_text(did_key(key.public_key)), "nb": named}
    fields = {"att": [capability], "aud": did_key(key.public_key), "exp": None, "prf": []}
    return issue_ucan(key.private_key, fields), named


@cache
def publishes(count: int) -> list[bytes]:
    """Return publishes by the id itself, some 600 bytes each."""
    source = random.Random(_SOURCE)
    key = KeyPair(source.randbytes(32))
    blocks = []
    for _ in range(count):
        ucan, named = leaf(source, key)
        change = {
            "type": "publish",
            "id": key.public_key,
            "link": named["link"],
            "origin": named["origin"],
            "proof": proof_value(ucan),
        }
        blocks.append(encode_node(change, named["prior"]).data)
    return blocks


def ucans(count: int) -> list[Ucan]:
    """Return leaves of one key."""
    source = random.Random(_SOURCE)
    key = KeyPair(source.randbytes(32))
    return [leaf(source, key)[0] for _ in range(count)]


def raw_blocks(size: int, count: int) -> list[bytes]:
    """Return blocks of one size."""
    source = random.Random(_SOURCE)
    return [source.randbytes(size) for _ in range(count)]


def operations(count: int) -> list[tuple[Cid, int | None]]:
    """Return publishes, each with the index of its prior among the 50 before it."""
    source = random.Random(_SOURCE)
    return [(_cid(source), source.randrange(max(0, at - 50), at) if at else None) for at in range(count)]
