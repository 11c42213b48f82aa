"""A deployment as a company runs it, under load; all in it is killed once, and nothing is lost or doubled.

Three brokers (three copies, two of them in sync, SASL_SSL, SCRAM, generated ACLs), a standalone Spark cluster
with two workers, two connectors, and three consumers in one group. Peers publish at both edges all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.demo.p2panda.plan import DemoLogWriter
from culm_infra.patience import Patience
from culm_infra.stack.ports import free_ports
from tests.support.deployment.members import (
    Member,
    audit,
    members,
    new_schema,
    publish_slowly,
    signed,
    until_live,
    write_logs,
)
from tests.support.deployment.secured import PREFIX, USERS, Deployment, grant_all
from tests.support.deployment.world import DEADLINE_S, WORLDS, Edge, World
from tests.support.kafka.cluster import KafkaCluster, running_cluster
from tests.support.spark.cluster import SparkCluster, running_spark_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]

_FROZEN_S = 60.0
_PAUSE_S = 0.05
# New executors on two cores: three jobs load their classes and start their Python workers side by side.
_RECOVERY_TIMEOUT_S = 400.0
_CONSUMERS = 3
_WORKER_CORES = 3
"""Tasks at a time, so that no job waits for another's."""

CONSUMER = """
import sys
from culm_topics.logs.consumer import LogConsumer
from culm_topics.kafka.clients import KafkaSettings

settings, group, schema, state, output = sys.argv[1:]
kafka = KafkaSettings.model_validate_json(settings)
with LogConsumer(kafka, group_id=group, schema_ids=[schema], state_dir=state) as consumer:
    with open(output, "a", buffering=1) as file:
        for entry in consumer:
            print(entry.public_key.hex(), entry.log_id, entry.seq_num, file=file)
"""


@dataclass
class Consumers:
    """Programs in one group, each with an output file of its own."""

    deployment: Deployment
    schema: str
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        folder = self.deployment.folder
        arguments = [
            self.deployment.settings("consumer").model_dump_json(),
            *(f"{PREFIX}faults", self.schema, str(folder / f"{name}.state"), str(folder / f"{name}.seen")),
        ]
        with (folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-c", CONSUMER, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()

    def check(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                log_tail = (self.deployment.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise AssertionError(f"the consumer {name} ended with {process.returncode}: {log_tail}")

    def seen(self) -> dict[str, list[tuple[bytes, int, int]]]:
        """What each has written down, in order; the last line of one that was killed may be cut."""
        entries: dict[str, list[tuple[bytes, int, int]]] = {}
        for path in sorted(self.deployment.folder.glob("*.seen")):
            lines = path.read_text().split("\n")[:-1]
            rows = (line.split() for line in lines)
            entries[path.stem] = [(bytes.fromhex(key), int(log_id), int(seq)) for key, log_id, seq in rows]
        return entries


@contextlib.contextmanager
def running_deployment(folder: Path) -> Iterator[tuple[World, Deployment, SparkCluster]]:
    with (
        running_cluster(folder / "kafka", users=USERS) as cluster,
        running_spark_cluster(folder / "spark", cores=_WORKER_CORES) as spark,
    ):
        grant_all(cluster)
        deployment = Deployment(cluster, folder)
        deployment.create_topics()
        world = _world(deployment, spark)
        WORLDS.append(world)
        try:
            world.jobs.start()
            for edge in world.edges:
                edge.start()
            asyncio.run(world.until_serving())
            yield world, deployment, spark
        finally:
            WORLDS.remove(world)
            for process in reversed(world.processes):
                process.stop()


def _world(deployment: Deployment, spark: SparkCluster) -> World:
    folder = deployment.folder
    jobs = CulmProcess(
        "the streaming jobs",
        (
            *("job", "run", "all", "--master", spark.url, "--checkpoints", str(folder / "checkpoints")),
            *("--state-partitions", "2", "--spark-option", "spark.executor.memory=768m"),
            *("--spark-option", "spark.driver.host=127.0.0.1"),
            *("--spark-option", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1"),
        ),
        deployment.variables("job"),
        folder / "jobs.log",
    )
    edges = []
    for name, port in zip(("west", "east"), free_ports(2), strict=True):
        command = ("connector", "run", "--listen", f"127.0.0.1:{port}", "--dir", str(folder / name))
        process = CulmProcess(
            f"the connector {name}", command, deployment.variables("connector"), folder / f"{name}.log"
        )
        edges.append(Edge(process, folder / name, port))
    return World(folder, deployment.settings("operator"), jobs, *edges)


@contextlib.asynccontextmanager
async def publishing(peers: list[Member], writers: list[DemoLogWriter]) -> AsyncIterator[None]:
    """Peers publish in their own logs, all the time, until the context ends."""

    async def publish(peer: Member, writer: DemoLogWriter) -> None:
        while True:
            await publish_slowly(peer, writer, 10, _PAUSE_S)

    tasks = [asyncio.create_task(publish(peer, writer)) for peer, writer in zip(peers, writers, strict=True)]
    try:
        yield
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_every_kind_of_process_is_killed_and_a_broker_stands_still(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        world, deployment, spark = await loop.run_in_executor(
            None, stack.enter_context, running_deployment(tmp_path)
        )
        schema = new_schema("faults")
        consumers = Consumers(deployment, schema)
        stack.callback(consumers.stop)
        for number in range(_CONSUMERS):
            consumers.start(f"consumer-{number}")
        own = write_logs(1, schema, [1, 1])
        async with members(tmp_path, schema, 2) as peers:
            for peer, writer, edge in zip(peers, own, world.edges, strict=True):
                await peer.add(writer.entries)
                peer.dial(edge)
            await until_live(world, schema, *peers)
            async with publishing(peers, own):
                await _faults(world, deployment.cluster, spark, consumers, own)
            await audit(world, schema, own, peers)
            await _audit_consumers(consumers, own)
        assert deployment.cluster.denials() == []


async def _faults(
    world: World, cluster: KafkaCluster, spark: SparkCluster, consumers: Consumers, own: list[DemoLogWriter]
) -> None:
    """Kill one process of each kind, and wait each time until entries go on through all of it."""

    async def until_flowing(what: str) -> None:
        """Entries that are published from now on reach the consumers."""
        marks = [(writer.key_pair.public_key, writer.log_id, len(writer.entries) + 1) for writer in own]
        began_s = time.monotonic()

        def arrived() -> bool:
            consumers.check()
            seen = {row for rows in consumers.seen().values() for row in rows}
            return all(mark in seen for mark in marks)

        await world.until(arrived, f"entries at the consumers after: {what}", timeout_s=_RECOVERY_TIMEOUT_S)
        print(f"{what}: entries at the consumers again after {time.monotonic() - began_s:.1f} s")

    await until_flowing("start")
    consumers.kill("consumer-0")
    await until_flowing("kill -9 of a consumer")
    consumers.start("consumer-0")
    world.west.kill()
    world.west.start()
    await until_flowing("kill -9 of a connector")
    spark.kill(spark.workers[0])
    spark.start_worker("worker-3", cores=_WORKER_CORES, memory_mb=1024)
    await until_flowing("kill -9 of a Spark worker")
    world.kill_jobs()
    world.jobs.start()
    await until_flowing("kill -9 of the jobs' driver")
    first, second, _ = cluster.nodes
    first.kill()
    await until_flowing("kill -9 of a broker")
    cluster.start(first)
    await asyncio.to_thread(cluster.await_all)
    with second.frozen():
        await asyncio.sleep(_FROZEN_S)  # the fault is that it lasts
        await until_flowing("a broker frozen for a minute")
    await until_flowing("the broker going on")


async def _audit_consumers(consumers: Consumers, own: list[DemoLogWriter]) -> None:
    """Every entry at a consumer of the group; again only where a consumer was killed before it committed."""
    wanted = set(signed(own))
    rows: Counter[tuple[bytes, int, int]] = Counter()
    patience = Patience(DEADLINE_S, rows.total)
    while True:
        rows.clear()
        rows.update(row for of_one in consumers.seen().values() for row in of_one)
        if not (lost := wanted - rows.keys()):
            break
        consumers.check()
        patience.check(f"{len(lost)} entries at a consumer")
        await asyncio.sleep(0.2)
    repeated = sum(count - 1 for count in rows.values())
    print(f"{len(wanted)} entries, {repeated} handed out again after kills and rebalances")
