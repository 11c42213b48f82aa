"""DAG peers at two connectors of one deployment, over QUIC and a real broker."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.dag.peer import DagPeer
from culm_connectors.dag.protocol import DagProtocol
from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.errors import VerdictDiffers
from culm_models.dag.replica.codec import encode_append
from culm_models.testing.dag.replica import NOW
from culm_models.testing.dag.scenario import large_shard
from culm_topics.dag.verdict import read_verdict
from tests.models.dag.signers import KEYS, publish
from tests.support.dag_edge import dag_address, dag_connector
from tests.support.edge import topics, until

pytestmark = pytest.mark.kafka

SPACE = KEYS[0]
SHARD, BYTES = large_shard(1)
NODE = encode_append([SHARD])


def filled(folder: DagFolder) -> None:
    folder.put_blocks(SPACE, [NODE.data], received_at=NOW)
    folder.add_shard(SPACE, SHARD, BYTES)
    folder.put_blocks(None, [publish(link=SHARD, origin=NODE.cid).data], received_at=NOW)


async def test_what_is_brought_to_one_connector_is_had_from_another_one_that_starts_later(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = topics(kafka_bootstrap, topic_prefix)
    async with DagPeer.open(tmp_path / "writer") as writer:
        await writer.work(filled)
        async with dag_connector(tmp_path / "one", kafka) as one:
            progress = await writer.sync(dag_address(one), [SPACE])
            assert progress.acknowledged == 3
        said = await writer.work(lambda folder: folder.published(SPACE))
    async with (
        dag_connector(
            tmp_path / "other", kafka, http=DagHttpSettings(append="anyone", read="anyone")
        ) as other,
        DagPeer.open(tmp_path / "reader") as reader,
    ):
        await reader.sync(dag_address(other), [SPACE])
        assert await reader.work(lambda folder: folder.published(SPACE)) == said
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
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    kafka = topics(kafka_bootstrap, topic_prefix)
    async with dag_connector(tmp_path / "one", kafka):
        found = read_verdict(kafka)
        assert found is not None and found.policy == "bound"
    with pytest.raises(VerdictDiffers, match="policy"):
        async with dag_connector(tmp_path / "other", kafka, policy="bearer"):
            pass
