"""A protocol is added in fewer than 200 lines and by one line a table: peers speak over Kafka and Spark."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import pytest

from culm_connectors.protocols import PROTOCOLS, ProtocolEntry
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport import CloseCode, Connection, ReceiveStream, SendStream
from culm_connectors.transport.quic import connect
from culm_infra.cli import root
from culm_models.conform import dispatch
from culm_streaming.run import RunSettings, run_jobs
from culm_topics.catalogue import registry, topics
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.records import RejectedRecord
from tests.streaming.sixth_protocol import command
from tests.streaming.sixth_protocol.edge import ALPN
from tests.streaming.sixth_protocol.topics import NOTES, NOTES_JOBS
from tests.streaming.sixth_protocol.wire import OPERATIONS
from tests.support.connectors.edge import Edge, running
from tests.support.connectors.quic import LOOPBACK, identity, quick_settings
from tests.support.kafka.topic_io import produce, read_all
from tests.support.process.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = Path(__file__).parent
ROOM: Final = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))
ENTRY: Final = ProtocolEntry("notes", "tests.streaming.sixth_protocol.edge:open_notes", "notes")


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the tables; that of the edge is an argument of a connector."""
    monkeypatch.setattr(dispatch, "OPERATIONS", (*dispatch.OPERATIONS, *OPERATIONS))
    monkeypatch.setattr(registry, "JOBS", (*registry.JOBS, *NOTES_JOBS))
    for topic in NOTES:
        monkeypatch.setitem(topics._BY_NAME, topic.name, topic)
    monkeypatch.setitem(root.NOUNS, "notes", command.app)


def test_it_has_fewer_than_two_hundred_lines_of_code() -> None:
    nodes = [node for path in ROOM for node in ast.parse(path.read_text()).body]
    lines = "\n".join(
        ast.unparse(node) for node in nodes if not isinstance(node, ast.Import | ast.ImportFrom)
    )
    code = [line for line in re.sub(r'"""(.|\n)*?"""', "", lines).splitlines() if line.strip()]
    assert len(code) < 200


def test_the_documentation_shows_this_code() -> None:
    def words(text: str) -> str:
        return " ".join(text.split())

    page = (HERE.parents[2] / "docs" / "adding-a-protocol.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = words(" ".join(path.read_text() for path in HERE.glob("*.py")))
    assert len(shown) == 6
    assert [block for block in shown if words(block) not in code] == []


def test_its_machine_is_driven_by_lines() -> None:
    conformance = dispatch.Conformance()
    asked = {"do": "notes.read", "bytes": b"one\ntwo\nth".hex()}
    assert json.loads(conformance.answer_line(json.dumps(asked)))["ok"] == {"notes": ["one", "two"]}


class Peer:
    """Somebody who notes, and reads what is noted."""

    def __init__(self, connection: Connection, stream: SendStream, answers: ReceiveStream) -> None:
        self.connection = connection
        self._stream, self._answers = stream, answers
        self._heard = b""

    async def say(self, line: bytes) -> None:
        await self._stream.write(line)

    async def hear(self, count: int) -> list[str]:
        """Return the first notes, once so many have come."""
        while self._heard.count(b"\n") < count:
            data = await self._answers.read()
            assert data, "the edge says no more"
            self._heard += data
        return self._heard.decode().splitlines()[:count]


@asynccontextmanager
async def peer(edge: Edge, number: int) -> AsyncIterator[Peer]:
    """A peer at an edge that has noted something."""
    streams: list[SendStream] = []

    async def speak_first(connection: Connection) -> None:
        streams.append(await connection.open_stream(bidirectional=True))
        await streams[0].write(f"peer {number}\n".encode())

    assert edge.address is not None
    connection = await connect(
        edge.address, identity(number), None, quick_settings(), alpn=ALPN, speak_first=speak_first
    )
    try:
        assert streams[0].receive is not None
        yield Peer(connection, streams[0], streams[0].receive)
    finally:
        await connection.close()


@pytest.mark.kafka
@pytest.mark.spark
async def test_what_is_noted_at_one_edge_is_numbered_and_read_at_another(
    spark: SparkSession,
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    await asyncio.to_thread(admin.create, kafka)
    await asyncio.to_thread(admin.create, kafka, NOTES)

    def number_all() -> None:
        run = RunSettings(kafka=kafka, checkpoints=str(tmp_path / "state"), jobs=("notes",), once=True)
        run_jobs(spark, run, stop=Event())

    def edge(name: str) -> Edge:
        settings = ConnectorSettings(directory=tmp_path / name, listen=LOOPBACK)
        return Edge(settings, kafka, protocols=(*PROTOCOLS, ENTRY))

    produce(kafka, "notes.said", [(b"key", b"no record")])
    async with (
        running(edge("west")) as west,
        running(edge("east")) as east,
        peer(west, 1) as west_peer,
        peer(east, 2) as east_peer,
    ):
        await west_peer.say("später\n".encode())
        await until(lambda: len(read_all(kafka, "notes.said")) == 4)
        await asyncio.to_thread(number_all)
        lines = await west_peer.hear(4)
        assert await east_peer.hear(4) == lines
        assert {line.split(" ", 1)[-1] for line in lines} == {"notes", "peer 1", "peer 2", "später"}
        await west_peer.say(b"n" * 300)
        reason = await west_peer.connection.wait_closed()
        assert (reason.code, reason.text[:13]) == (CloseCode.PROTOCOL, "notes.refused")
    (refused,) = [RejectedRecord.decode(value) for _, value in read_all(kafka, "rejected")]
    assert refused.source == (kafka.topic("notes.said"), 0, 0)

    assert (
        root.run(["notes", "list", "--json", "--bootstrap", kafka_bootstrap, "--prefix", topic_prefix]) == 0
    )
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [f"{row['number']} {row['text']}" for row in listed] == lines[1:]
