"""DAG peers at two connectors of one deployment, over QUIC and a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from culm_connectors.dag.deployment import block_in_topics, drop_from_topics
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.protocol import DagProtocol
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.errors import RulesDiffer
from culm_models.dag.replica.codec import encode_append
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import large_shard
from culm_topics.dag.validation_rules import read_rules
from culm_topics.kafka.clients import KafkaSettings
from tests.models.dag.signers import KEYS, publish
from tests.support.dag.edge import dag_address, dag_connector
from tests.support.process.waiting import until, while_working

pytestmark = pytest.mark.kafka

SPACE = KEYS[0]
SHARD, BYTES = large_shard(1)
NODE = encode_append([SHARD])


async def until_answered(ask: Callable[[], Awaitable[httpx.Response]], status: int) -> None:
    async with while_working():
        while (await ask()).status_code != status:  # noqa: ASYNC110 - the connector follows by itself
            await asyncio.sleep(0.01)


def filled(folder: DagFolder) -> None:
    folder.put_blocks(SPACE, [NODE.data], received_at=NOW)
    folder.add_shard(SPACE, SHARD, BYTES)
    folder.put_blocks(None, [publish(link=SHARD, origin=NODE.cid).data], received_at=NOW)


async def test_what_is_brought_to_one_connector_is_had_from_another_one_that_starts_later(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with DagPeer.open(tmp_path / "writer") as writer:
        await writer.work(filled)
        async with dag_connector(tmp_path / "one", kafka) as edge:
            progress = await writer.sync(dag_address(edge), [SPACE])
            assert progress.acknowledged == 3
        published = await writer.work(lambda folder: folder.published(SPACE))
    async with (
        dag_connector(
            tmp_path / "other", kafka, http=DagHttpSettings(append="anyone", read="anyone")
        ) as other,
        DagPeer.open(tmp_path / "reader") as reader,
    ):
        await reader.sync(dag_address(other), [SPACE])
        assert await reader.work(lambda folder: folder.published(SPACE)) == published
        assert await reader.work(lambda folder: folder.read_shard(SHARD, 0, len(BYTES))) == BYTES
        dag = other.protocols["dag"]
        assert isinstance(dag, DagProtocol)
        await until(lambda: dag.http_url)
        async with httpx.AsyncClient(base_url=str(dag.http_url)) as client:
            answer = await client.get(f"/ipfs/{NODE.cid.text}?format=raw")
            assert (answer.status_code, answer.content) == (200, NODE.data)
            answer = await client.head(f"/shards/{SHARD.text}?space={SPACE.hex()}")
            assert (answer.status_code, answer.headers["Culm-Size"]) == (200, str(len(BYTES)))


async def test_a_connector_of_other_verdict_settings_does_not_start(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    async with dag_connector(tmp_path / "one", kafka):
        rules = read_rules(kafka)
        assert rules is not None and rules.policy == "bound"
    with pytest.raises(RulesDiffer, match="policy"):
        async with dag_connector(tmp_path / "other", kafka, policy="bearer"):
            pass


async def test_what_an_operator_drops_is_gone_from_connectors_and_refused(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    door = DagHttpSettings(append="anyone", read="anyone")
    async with dag_connector(tmp_path / "one", kafka, http=door) as edge:
        dag = edge.protocols["dag"]
        assert isinstance(dag, DagProtocol)
        await until(lambda: dag.http_url)
        async with httpx.AsyncClient(base_url=str(dag.http_url)) as client:
            url = f"/shards/{SHARD.text}?space={SPACE.hex()}"
            assert (await client.put(url, content=BYTES)).status_code == 201
            await asyncio.to_thread(block_in_topics, kafka, [SHARD, KEYS[1]], "unwanted", now=NOW)
            other = publish(id=1)
            await until_answered(lambda: client.post("/publishes", content=other.data), 403)
            assert await asyncio.to_thread(drop_from_topics, kafka, {SHARD}) == {SHARD}
            await until_answered(lambda: client.head(url), 404)
            answer = await client.put(url, content=BYTES)
            assert (answer.status_code, answer.json()["code"]) == (403, "dag.blocked")
            await asyncio.to_thread(block_in_topics, kafka, [SHARD, KEYS[1]], None, now=NOW)
            await until_answered(lambda: client.post("/publishes", content=other.data), 201)
            assert (await client.put(url, content=BYTES)).status_code == 201
