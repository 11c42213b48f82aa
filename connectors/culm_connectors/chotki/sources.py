"""The edge's own source: its number, its own object, and whose it is in `chotki.sources` (reference 10, 10).

A source belongs to one replica for ever, and is claimed at each start (`culm_topics.chotki.sources`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from hashlib import blake2b
from typing import Final

from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import SourceRecord, source_key
from culm_topics.chotki.sources import FREE, SOURCES_TOPIC, read_sources
from culm_topics.kafka.clients import KafkaSettings

_SRC_BITS: Final = 40


def source_of(public_key: bytes) -> int:
    """The source of a key: 40 bits, never one that people write by hand (below 2^20)."""
    digest = blake2b(public_key, digest_size=8, person=b"culm-chotki-src").digest()
    return int.from_bytes(digest, "big") >> (64 - _SRC_BITS) | 1 << 20


async def claim(producer: BatchProducer, kafka: KafkaSettings, src: int, owner: str) -> None:
    """Say whose the source is, from now on in this run; a former run of this edge ends with it.

    Raises `SourceTaken` and `SourceRetired` unless the source is free or this owner's.
    """
    table = await asyncio.to_thread(read_sources, kafka)
    table.choose(src, owner, (), take_over=True)
    now_ms = int(time.time() * 1000)
    runs = (FREE, secrets.token_bytes(len(FREE)))
    values = [SourceRecord(owner, run, "allocated", now_ms).encode() for run in runs]
    await producer.send(
        kafka.topic(SOURCES_TOPIC), [ProducerRecord(source_key(src), value) for value in values]
    )


def own_object(src: int, name: str) -> bytes:
    """The packet Y with which a replica says what it is called (reference 2.6)."""
    body = (
        record("S", write_first(0, src, name.encode()))
        + record("V", b"")
        + record("S", write_first(0, src, b""))
    )
    return write_live("Y", Id(src, 0), ZERO_ID, body)
