"""The edge's own source: its number, its own object, and whose it is in `chotki.sources` (reference 10, 10).

A source belongs to one replica for ever. It is claimed at each start; a claim of another owner, or one that
was retired, is refused.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import ClassVar, Final

from culm_connectors.errors import ConnectorError
from culm_connectors.kafka import BatchProducer, ProducerRecord
from culm_models.chotki.ids import ZERO_ID, Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import SourceRecord, source_key
from culm_topics.kafka.clients import KafkaSettings

_SRC_BITS: Final = 40


class SourceTaken(ConnectorError):
    """The source belongs to somebody else, or was retired."""

    code: ClassVar[str] = "chotki.source_taken"


def source_of(public_key: bytes) -> int:
    """The source of a key: 40 bits, never one that people write by hand (below 2^20)."""
    digest = blake2b(public_key, digest_size=8, person=b"culm-chotki-src").digest()
    return int.from_bytes(digest, "big") >> (64 - _SRC_BITS) | 1 << 20


def check_claim(src: int, owner: str, found: Iterable[SourceRecord]) -> None:
    """Raise `SourceTaken` unless the last record of the source, if any, is this owner's and in use."""
    for last in found:
        if last.state == "retired":
            raise SourceTaken(f"the source {src:x} was retired", hint="set another one in [connector.chotki]")
        if last.owner != owner:
            raise SourceTaken(
                f"the source {src:x} belongs to {last.owner}", hint="set another one in [connector.chotki]"
            )


async def claim(producer: BatchProducer, kafka: KafkaSettings, src: int, owner: str) -> None:
    """Say whose the source is, from now on in this run."""
    value = SourceRecord(owner, secrets.token_bytes(16), "allocated", int(time.time() * 1000)).encode()
    await producer.send(kafka.topic("chotki.sources"), [ProducerRecord(source_key(src), value)])


def own_object(src: int, name: str) -> bytes:
    """The packet Y with which a replica says what it is called (reference 2.6)."""
    body = (
        record("S", write_first(0, src, name.encode()))
        + record("V", b"")
        + record("S", write_first(0, src, b""))
    )
    return write_live("Y", Id(src, 0), ZERO_ID, body)
