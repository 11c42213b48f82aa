"""Who forges is let go of and told of on `rejected`; what was verified before stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import DataInvalid, EvidenceBogus
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, RawPayload
from culm_models.bymux.endpoint import CONTROL, DATA
from culm_models.keys import KeyPair
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.records import EntryRecord
from culm_topics.records import RejectedRecord
from tests.support.bamboo_edge import address, bamboo_edge, offering, peer_at, until_held
from tests.support.edge import Edge
from tests.support.hostile_bamboo import first_entry, hostile_channels, open_proposal
from tests.support.topic_io import read_all
from tests.support.waiting import while_working

pytestmark = pytest.mark.kafka

STRANGER = KeyPair.generate(b"a stranger at an edge")
AUTHOR = KeyPair.generate(b"an author whom a stranger quotes")
LOG = (AUTHOR.public_key, 0)
_QUIC = "bamboo-p2p/2019-10"


@pytest.fixture
async def edge(tmp_path: Path, kafka: KafkaSettings) -> AsyncIterator[Edge]:
    async with bamboo_edge(tmp_path / "edge", kafka, listen=("quic://127.0.0.1:0/yamf",)) as running:
        yield running


async def rejected(kafka: KafkaSettings) -> RejectedRecord:
    """The first record there, once it is."""
    async with while_working():
        while not (found := await asyncio.to_thread(read_all, kafka, "rejected")):
            pass
    value = found[0][1]
    assert value is not None
    return RejectedRecord.decode(value)


def _with_payload(payload: bytes) -> bytes:
    return first_entry(AUTHOR, b"sound") + encode_data(RawPayload(len(payload))) + payload


def _forged_signature() -> bytes:
    data = bytearray(first_entry(AUTHOR, b"sound"))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize("forged", [_forged_signature, lambda: _with_payload(b"false")])
async def test_what_is_forged_is_told_with_who_brought_it(
    edge: Edge, kafka: KafkaSettings, forged: Callable[[], bytes]
) -> None:
    url = address(edge, _QUIC)
    async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
        await channels.write(CONTROL, open_proposal(0, AUTHOR))
        await channels.write(DATA, forged())
        found = await rejected(kafka)
    assert (found.code, found.brought_by) == (DataInvalid.code, STRANGER.public_key)


async def test_bogus_evidence_is_told_with_who_brought_it_and_what(edge: Edge, kafka: KafkaSettings) -> None:
    one, other = (sign_entry(AUTHOR, log_id, 1, b"sound", flavour=YAMF) for log_id in (0, 1))
    url = address(edge, _QUIC)
    async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
        bogus = encode_control(Cancel(0, CancelCode.FORKED, entries=(one, other)))
        await channels.write(CONTROL, open_proposal(0, AUTHOR) + bogus)
        found = await rejected(kafka)
    assert (found.code, found.brought_by) == (EvidenceBogus.code, STRANGER.public_key)
    assert (found.first, found.entry) == (one, other)


async def test_what_was_verified_before_a_forgery_is_in_kafka(
    tmp_path: Path, edge: Edge, kafka: KafkaSettings
) -> None:
    url = address(edge, _QUIC)
    async with peer_at(tmp_path / "reader", url, FollowedLog(LOG)) as reader:
        async with hostile_channels((url.host, url.port), private_key=STRANGER.private_key) as channels:
            await channels.write(CONTROL, open_proposal(0, AUTHOR))
            await channels.write(DATA, _with_payload(b"sound") + first_entry(AUTHOR, b"again"))
            assert (await rejected(kafka)).brought_by == STRANGER.public_key
        await until_held(reader, LOG, 1)
    async with while_working():
        while not (found := await asyncio.to_thread(read_all, kafka, "entries")):
            pass
    assert [EntryRecord.decode(value).operation for _, value in found] == [b"sound"]


async def test_a_fork_is_told_with_its_proof(tmp_path: Path, edge: Edge, kafka: KafkaSettings) -> None:
    url = address(edge, _QUIC)
    async with peer_at(tmp_path / "one", url, offering(LOG)) as one:
        first = await one.publish(AUTHOR, 0, b"one branch")
        async with peer_at(tmp_path / "reader", url, FollowedLog(LOG)) as reader:
            await until_held(reader, LOG, 1)
        async with peer_at(tmp_path / "other", url, offering(LOG)) as other:
            second = await other.publish(AUTHOR, 0, b"the other")
            found = await rejected(kafka)
    assert found.code == "bamboo.fork"
    assert {found.first, found.entry} == {first.entry_bytes, second.entry_bytes}
