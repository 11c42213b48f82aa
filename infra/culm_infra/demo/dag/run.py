"""The story chapter by chapter, under each policy, each with its own figures."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from culm_connectors.dag.author import delegate, put_own
from culm_connectors.dag.progress import SyncProgress
from culm_infra.columns import Columns, of
from culm_infra.demo.dag.door import DoorWriter
from culm_infra.demo.dag.invalid_publishes import expired, rewrapped, stolen, unnamed
from culm_infra.demo.dag.size import SHARD_BYTES, SMALL_BYTES, DagDemoSize
from culm_infra.demo.dag.stage import DagDeployment, staged
from culm_infra.demo.dag.statements import (
    ReplicaStatement,
    agree,
    ask_edge,
    ask_topics,
    ask_writer,
    rejected_codes,
)
from culm_infra.demo.dag.writer import DagWriter, PutFile, SeededFile, dag_writer, digest_of_file, now_s
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.kit.report import DemoReport, Listing, SceneFigures
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.errors import NotReached
from culm_models.dag.blocks.cid import DAG_CBOR, IDENTITY, Cid, make_cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.token import Ucan
from culm_models.keys import KeyPair

_WRITERS: Final = ("ada", "ben", "cem")


@dataclass(slots=True)
class DagStory:
    """One running deployment. ada is the id; ben and cem publish by her delegation; dora reads."""

    size: DagDemoSize
    stage: DemoStage
    deployment: DagDeployment
    figures: SceneFigures
    ada: DagWriter
    ben: DagWriter
    cem: DagWriter
    dora: DagWriter
    by_http: DoorWriter
    files: dict[str, SeededFile] = field(default_factory=dict)
    put: dict[str, PutFile] = field(default_factory=dict)
    first: Cid | None = None
    statements: list[ReplicaStatement] = field(default_factory=list)

    @property
    def writers(self) -> tuple[DagWriter, DagWriter, DagWriter]:
        """The three writers that append and publish."""
        return self.ada, self.ben, self.cem

    async def play(self) -> None:
        """Play all chapters."""
        await self.begin()
        await self.write_offline()
        await self.come_together()
        await self.join()
        await self.publish_without_a_right()
        await self.compare()
        await self.read_back()

    async def begin(self) -> None:
        """Let ada publish a first file and delegate to ben and cem; each of them receives it in its own
        way.
        """
        self.stage.show("ada publishes, and delegates to ben and cem; ben comes over QUIC, cem over HTTP")
        file = self._file("first", SMALL_BYTES // 10)
        put = await self.ada.put(file, SHARD_BYTES)
        self.put["first"] = put
        await self._delegate(self.ben)
        handed = await self._delegate(self.cem)
        # ben's UCAN comes with the space. Over HTTP nothing lists UCANs, so cem gets his directly.
        await self.cem.peer.work(lambda folder: put_own(folder, self.cem.space, handed.block, now=now_s()))
        self.first = await self.ada.publish(put.cid, put.origin, put.shards[0])
        await self._sync(self.ada, west=True)
        await self.stage.until(lambda: self._meets(1), "ben and cem to hear of it")

    async def _delegate(self, to: DagWriter) -> Ucan:
        audience = did_key(to.key.public_key)
        return await self.ada.peer.work(
            lambda folder: delegate(folder, self.ada.key, self.ada.space, audience, now=now_s())
        )

    async def write_offline(self) -> None:
        """Let three disconnected writers append to one node and publish on one publish."""
        self.stage.show("nobody is connected: all three append a file and publish it, on the same tip")
        for writer in self.writers:
            large = writer is self.ada
            size = self.size.large_bytes(self.deployment.policy) if large else SMALL_BYTES
            put = await writer.put(self._file(writer.name, size), SHARD_BYTES)
            self.put[writer.name] = put
            await writer.publish(put.cid, put.origin, put.shards[0])
        heads = [tuple(await writer.dag_heads()) for writer in self.writers]
        self.figures.equal("heads of three offline writers", len(set(heads)), 3)

    async def come_together(self) -> None:
        """Interrupt all transfers: kill ada's connector, close ben's connection, withhold half of cem's
        parts.
        """
        size = self.size.large_bytes(self.deployment.policy)
        self.stage.show(f"ada brings {size:,} bytes to the edge west, which is killed with SIGKILL meanwhile")
        await self._push_over_a_killed_edge()
        if self.deployment.policy == self.size.chosen[0]:
            await self._kill_the_job()
        self.stage.show(
            "ben is cut off, and brings the same to both edges; cem brings shuffled parts by HTTP"
        )
        await asyncio.gather(self._push_interrupted(), self._push_by_http())
        await self.stage.until(lambda: self._meets(4), "everybody to hold all three publishes")
        orders = [(await ask_writer(writer, "")).order for writer in self.writers]
        self.figures.equal("orders of four publishes after a race", len(set(orders)), 1)

    async def _push_over_a_killed_edge(self) -> None:
        west = self.deployment.west
        killed = asyncio.Event()

        def kill(progress: SyncProgress) -> None:
            if progress.sent_bytes and not killed.is_set():
                west.process.kill()
                killed.set()

        began_s = time.monotonic()
        pushing = asyncio.create_task(self.ada.sync(west.address, self.stage.timeout_s, on_progress=kill))
        try:
            await asyncio.wait(
                (pushing, asyncio.ensure_future(killed.wait())), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)
        self.figures.demand("edge west killed in the midst of it", holds=killed.is_set())
        west.process.start()
        await west.serving(self.stage)
        self.figures.show("serving again after that", time.monotonic() - began_s, "s")
        await self._sync(self.ada, west=True)
        self.figures.show("ada's file acknowledged, with all that", time.monotonic() - began_s, "s")

    async def _kill_the_job(self) -> None:
        """Kill the job with SIGKILL while it reads ada's data; it resumes from its checkpoint."""
        job = self.deployment.job
        self.stage.show("kill -9 of the job dag, of Spark and all that runs below it; it is started again")
        await self.stage.until(self._job_has_begun, "the job to tell of the first publish")
        await asyncio.to_thread(job.kill_tree)
        published = len((await ask_topics(self.deployment.kafka, self.ada.space)).order)
        self.figures.at_least("publishes told of, then the job killed", published, 1)
        job.start()

    async def _job_has_begun(self) -> bool:
        return bool((await ask_topics(self.deployment.kafka, self.ada.space)).order)

    async def _push_interrupted(self) -> None:
        broken = asyncio.Event()

        def notice(progress: SyncProgress) -> None:
            if progress.sent_bytes:
                broken.set()

        east = self.deployment.east.address
        pushing = asyncio.create_task(self.ben.sync(east, self.stage.timeout_s, on_progress=notice))
        await asyncio.wait(
            (pushing, asyncio.ensure_future(broken.wait())), return_when=asyncio.FIRST_COMPLETED
        )
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)
        await asyncio.gather(self._sync(self.ben, west=True), self._sync(self.ben, west=False))
        self.figures.demand("ben was cut off, and came to both edges", holds=broken.is_set())

    async def _push_by_http(self) -> None:
        await self.by_http.push()
        writer = self.by_http
        self.figures.show("shuffled parts that cem brought", writer.parts)
        self.figures.at_least("of them twice", writer.doubled, 1)
        self.figures.at_least("shards that he resumed", writer.resumed, 1)

    async def join(self) -> None:
        """Let each writer make the join by itself; ada publishes it."""
        self.stage.show(
            "each of the three makes the join by itself, and ada publishes all three files on the tip"
        )
        joins = [await writer.join() for writer in self.writers]
        self.figures.equal("joins that three writers made", len(set(joins)), 1)
        # The link is an identity CID with a map of the three files.
        files = {name: self.put[name].cid for name in _WRITERS}
        link = make_cid(1, DAG_CBOR, IDENTITY, encode_dag_cbor(files))
        await self.ada.publish(link, joins[0])
        await self.stage.until(lambda: self._meets(5), "everybody to hold the merge")

    async def publish_without_a_right(self) -> None:
        """Send a stranger's publishes to a door, and check the code of each answer."""
        self.stage.show("a stranger comes with a stolen proof, a rewrapped one, and an expired one")
        published = await self.ben.peer.work(lambda folder: folder.published(self.ben.space))
        tip = published.order[-1]
        own = next(publish for publish in published.order if publish.link == self.put["ben"].cid)
        block = await self.ben.peer.work(lambda folder: folder.read_node(own.cid))
        if block is None:
            raise DemoError("ben has lost his own publish")
        first = self.put["first"]
        attempts = {
            "a stolen proof": (stolen(block, first.cid), "dag.unbound"),
            "a rewrapped proof": (rewrapped(block), "dag.proof_form"),
            "an expired proof": (
                expired(self.ada.key, first.cid, first.origin, tip.cid, now_s()),
                "dag.expired",
            ),
        }
        for what, (attempt, code) in attempts.items():
            self.figures.equal(f"{what} is answered", await self._answer(attempt), code)
        await self.stage.until(self._refusals_are_reported, "refusals to be reported on the topic rejected")
        named_nothing = unnamed(self.ada.key, first.cid, first.origin, tip.cid)
        taken = "dag.unbound" if self.deployment.policy == "bound" else "taken"
        self.figures.equal("a proof that names nothing", await self._answer(named_nothing), taken)

    async def _refusals_are_reported(self) -> bool:
        # A refusal by the clock alone is not a verdict and is not recorded (R25).
        return {"dag.unbound", "dag.proof_form"} <= (await rejected_codes(self.deployment.kafka)).keys()

    async def _answer(self, block: bytes) -> str:
        answer = await self.deployment.east.door.ask(
            "POST", "/publishes", block, headers={"Content-Type": "application/vnd.ipld.dag-cbor"}
        )
        return "taken" if answer.status == 201 else str(answer.json().get("code"))

    async def compare(self) -> None:
        """Compare order, tip and heads everywhere; dora connects as a new replica to the edge that was
        killed.
        """
        self.stage.show(
            "dora, who was never here, calls the edge west; everybody and the job's topics are compared"
        )
        began_s = time.monotonic()
        count = 5 if self.deployment.policy == "bound" else 6
        await self.stage.until(lambda: self._meets(count, all_of_them=True), "all to hold the same")
        await self.stage.until(self._job_agrees, "the job's topics to say the same")
        self.figures.show("until all held the same", time.monotonic() - began_s, "s")
        self.statements = await self._ask_all()
        self.figures.equal("publishes in the order", len(self.statements[0].order), count)
        self.figures.demand("one order, tip and heads everywhere", holds=agree(self.statements))

    async def _job_agrees(self) -> bool:
        statement = await ask_topics(self.deployment.kafka, self.ada.space)
        return statement.heads is not None and agree([await ask_writer(self.ada, ""), statement])

    async def read_back(self) -> None:
        """Read the files back byte for byte: from dora's shards, and over HTTP."""
        self.stage.show("reading the files back")
        for name in _WRITERS:
            file, cid = self.files[name], self.put[name].cid
            wanted = await asyncio.to_thread(file.digest)
            digest = await self.dora.peer.work(lambda folder, of=cid: digest_of_file(folder, of))  # type: ignore[misc]
            self.figures.demand(f"{name}'s {file.size:,} bytes at dora's", holds=digest == wanted)
        body, file = hashlib.sha256(), self.files["ada"]
        wanted = await asyncio.to_thread(file.digest)
        await self.deployment.east.door.get(f"/ipfs/{self.put['ada'].cid.text}", body.update)
        self.figures.demand(f"{file.size:,} bytes by HTTP from east", holds=body.hexdigest() == wanted)
        self.figures.at_least("shards that cem cut anew of CARs", self.by_http.recut, 1)

    async def _meets(self, count: int, *, all_of_them: bool = False) -> bool:
        """Exchange once everywhere. Returns whether all know `count` publishes and agree."""
        await asyncio.gather(
            self._sync(self.ada, west=True), self._sync(self.ben, west=False), self._exchange_by_http()
        )
        writers: list[DagWriter] = [*self.writers]
        if all_of_them:
            await self._sync(self.dora, west=True)
            writers.append(self.dora)
        statements = [await ask_writer(writer, "") for writer in writers]
        if all_of_them:
            statements += [await ask_edge(edge, self.ada.space) for edge in self.deployment.edges]
        return agree(statements) and len(statements[0].order) == count

    async def _exchange_by_http(self) -> None:
        door = self.deployment.east.door
        answer = await door.ask("GET", f"/published/{self.ada.space.hex()}")
        if answer.status != 200:
            # The other edge's data has not reached this edge yet.
            return
        await self.by_http.pull()
        await self.by_http.push()

    async def _ask_all(self) -> list[ReplicaStatement]:
        places = ((self.ada, "west, QUIC"), (self.ben, "east, QUIC"), (self.cem, "east, HTTP"))
        statements = [await ask_writer(writer, location) for writer, location in places]
        statements.append(await ask_writer(self.dora, "west, QUIC, new"))
        statements += [await ask_edge(edge, self.ada.space) for edge in self.deployment.edges]
        statements.append(await ask_topics(self.deployment.kafka, self.ada.space))
        return statements

    async def _sync(self, writer: DagWriter, *, west: bool) -> SyncProgress:
        edge = self.deployment.west if west else self.deployment.east
        self.stage.check()
        return await writer.sync(edge.address, self.stage.timeout_s)

    def _file(self, name: str, size: int) -> SeededFile:
        seed = f"{self.deployment.policy}/{name}"
        self.files[name] = SeededFile(seed, self.size.seed, size)
        return self.files[name]

    def progress(self) -> object:
        """Return the transfer counts, which change while data moves."""
        return [writer.moved for writer in (*self.writers, self.dora)], self.by_http.parts


async def run_in_deployment(
    size: DagDemoSize, stage: DemoStage, deployment: DagDeployment, figures: SceneFigures
) -> Sequence[ReplicaStatement]:
    """Play the story in one deployment. Returns the final statements; errors end the story and are
    recorded.
    """
    keys = {name: KeyPair(os.urandom(32)) for name in (*_WRITERS, "dora")}
    space = keys["ada"].public_key
    folder = stage.directory / f"{deployment.policy}-replicas"
    async with AsyncExitStack() as stack:
        ada, ben, cem, dora = [
            await stack.enter_async_context(dag_writer(folder, name, key, space, deployment.policy))
            for name, key in keys.items()
        ]
        by_http = DoorWriter(cem, deployment.east.door, random.Random(size.seed), SHARD_BYTES)
        story = DagStory(size, stage, deployment, figures, ada, ben, cem, dora, by_http)
        stage.watched.append(story.progress)
        try:
            await story.play()
        except (DemoError, NotReached) as error:
            figures.stop(error)
        return story.statements


REPLICAS: Final[Columns] = {
    "who": "name",
    "where": "place",
    "publishes": of("order", len),
    "order": "order_digest",
    "tip": lambda row: (row["tip"] or "–")[-8:],
    "heads": lambda row: row["heads_digest"] or "–",
}


async def play(size: DagDemoSize, stage: DemoStage) -> DemoReport:
    """Play the story under each policy. Raises `DemoError` if nothing can be played."""
    started_s = time.monotonic()
    report = DemoReport("one order and tip everywhere")
    async with staged(size, stage) as deployments:
        for deployment in deployments:
            began_s = time.monotonic()
            scene = SceneFigures(deployment.policy, f"The policy {deployment.policy}")
            stage.show(f"{scene.title}: the Spark job dag starts beside the edges")
            deployment.job.start()
            try:
                statements = await run_in_deployment(size, stage, deployment, scene)
            finally:
                await asyncio.to_thread(deployment.job.stop)
            if statements:
                title = f"In the end, {scene.name}: what each replica says"
                rows = [statement.as_row() for statement in statements]
                scene.listings.append(Listing("replicas", title, REPLICAS, rows, words=2))
            scene.duration_s = time.monotonic() - began_s
            report.scenes.append(scene)
    report.total_s = time.monotonic() - started_s
    return report
