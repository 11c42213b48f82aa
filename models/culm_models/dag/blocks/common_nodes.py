"""Recognition of the most common nodes by pattern: appends of few shards, publishes with a UCAN of Culm.

A pattern matches canonical DAG-CBOR only: every head is the shortest, every map has its keys in order, every
link is a whole CID, and no bytes follow. A match proves that a node is canonical, at a lower cost than
decoding and encoding it again. All other nodes go to `fast_dag_cbor`.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import libipld

_DIGEST: Final = rb"\x12\x20.{32}"
_LINK: Final = rb"\xd8\x2a\x58\x25\x00\x01[\x55\x70\x71]" + _DIGEST
_SHARD_LINK: Final = rb"\xd8\x2a\x58\x26\x00\x01\x82\x04" + _DIGEST
_SHARD_LINK_SIZE: Final = 42
_CID_IN_LINK: Final = 5
_PRIOR_AT: Final = 12
"""Offset of the prior's CID in a node that has a prior."""
_DAG_CBOR_START: Final = b"\x01\x71"
_START: Final = rb"(?:\xa1|\xa2\x65prior" + _LINK + rb")\x66change"

_APPEND: Final = re.compile(
    _START + rb"\xa2\x64type\x66append\x66shards([\x80-\x97])((?:" + _SHARD_LINK + rb")*)", re.DOTALL
)

_FIELD_LINK, _FIELD_PRIOR = rb"\x64link" + _LINK, rb"\x65prior" + _LINK
_FIELD_SHARD, _FIELD_ORIGIN = rb"\x65shard" + _SHARD_LINK, rb"\x66origin" + _LINK
_NAMED: Final = rb"\x62nb(?:%b)" % b"|".join(
    (
        rb"\xa2" + _FIELD_LINK + _FIELD_ORIGIN,
        rb"\xa3" + _FIELD_LINK + rb"(?:" + _FIELD_PRIOR + rb"|" + _FIELD_SHARD + rb")" + _FIELD_ORIGIN,
        rb"\xa4" + _FIELD_LINK + _FIELD_PRIOR + _FIELD_SHARD + _FIELD_ORIGIN,
    )
)
_CAPABILITY: Final = rb"\xa3" + _NAMED + rb"\x63can\x6bdag/publish\x64with\x78\x38[ -~]{56}"
# A time of 32 bits, or null.
_EXPIRES: Final = rb"\x63exp(?:\xf6|\x1a(?!\x00\x00).{4})"
_KEY: Final = rb"\x58\x22.{34}"
_PROOF: Final = (
    rb"\xa7\x61s\x58\x44.{68}\x61v\x650\.9\.1\x63att\x81"
    + _CAPABILITY
    + rb"\x63aud"
    + _KEY
    + _EXPIRES
    + rb"\x63iss"
    + _KEY
    + rb"\x63prf(?:\x80|\x81"
    + _LINK
    + rb")"
)
_PUBLISH_START: Final = rb"\x62id\x58\x20.{32}" + _FIELD_LINK + rb"\x64type\x67publish\x65proof" + _PROOF
_PUBLISH: Final = re.compile(
    _START + rb"(?:\xa5" + _PUBLISH_START + rb"|\xa6" + _PUBLISH_START + _FIELD_SHARD + rb")" + _FIELD_ORIGIN,
    re.DOTALL,
)


def is_common_node(data: bytes) -> bool:
    """Whether the bytes match a common node and are therefore canonical. False proves nothing."""
    match = _APPEND.fullmatch(data)
    if match is not None:
        return len(match[2]) == _SHARD_LINK_SIZE * (match[1][0] - 0x80)
    return _PUBLISH.fullmatch(data) is not None


def common_append(data: bytes) -> tuple[bytes | None, list[bytes]] | None:
    """Return the prior and the shards of a common append, as the bytes of their CIDs.

    The shards ascend by text. Returns None for all other bytes, even if they are a valid append.
    """
    match = _APPEND.fullmatch(data)
    if match is None or len(match[2]) != _SHARD_LINK_SIZE * (match[1][0] - 0x80):
        return None
    prior = None
    if data[0] == 0xA2:
        prior = data[_PRIOR_AT : _PRIOR_AT + 36]
        if not prior.startswith(_DAG_CBOR_START):
            return None
    start = match.start(2) + _CID_IN_LINK
    shards = [data[at : at + 37] for at in range(start, len(data), _SHARD_LINK_SIZE)]
    if len(shards) > 1:
        texts = [libipld.encode_cid(shard) for shard in shards]
        if any(not low < high for low, high in pairwise(texts)):
            return None
    return prior, shards
