"""A real p2panda node beside a deployment: both directions, whoever dials.

The node is a program that we did not write: aquadoggo 0.9.1, the deployed implementation of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from culm_infra.demo.processes import CulmProcess, environment, free_udp_ports
from culm_models.bamboo import sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.checks import CheckedEntry, check_entry
from culm_models.p2panda.operation import Action, Value, encode_operation
from culm_models.p2panda.schema_id import normalise
from culm_topics.reading import read_to_end
from culm_topics.records import LogRecord, split_log_key
from tests.support.aquadoggo import BUILD_TIMEOUT_S, Node, require, running_node
from tests.support.members import member
from tests.support.world import DEADLINE_S, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]

FIELDS = "schema_field_definition_v1"
DEFINITIONS = "schema_definition_v1"
Bytes = tuple[bytes, bytes]
DOCUMENTS = 60
"""Created at each of two nodes."""
ROUNDS = 4
"""In each of them authors at either node write to as many documents."""
DELETES = 2
"""Documents deleted at each node in each round."""


@pytest.fixture(scope="session", autouse=True)
def program() -> Path:
    """Asked for first: without it nothing needs to be started."""
    return require()


class GraphqlAuthor:
    """Writes by asking the node what its next entry looks like, as p2panda's clients do."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key_pair = KeyPair.generate(uuid.uuid4().bytes * 2)
        self.written: list[CheckedEntry] = []

    def write(
        self,
        action: Action,
        schema_id: str,
        fields: dict[str, Value] | None,
        previous: Sequence[bytes] = (),
    ) -> bytes:
        """Publish one operation; returns its id."""
        view = tuple(sorted(previous))
        following = self.node.next_arguments(self.key_pair.public_key, view)
        operation = encode_operation(action, schema_id, previous=view or None, fields=fields)
        skiplink, backlink = following["skiplink"], following["backlink"]
        entry = sign_entry(
            self.key_pair,
            int(following["logId"]),
            int(following["seqNum"]),
            operation,
            skiplink=None if skiplink is None else bytes.fromhex(skiplink),
            backlink=None if backlink is None else bytes.fromhex(backlink),
        )
        checked = check_entry(entry, operation)
        self.node.publish(checked)
        self.written.append(checked)
        return checked.hash


def culm_peer(folder: Path, *arguments: str) -> str:
    """`culm peer ... --dir FOLDER`; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "culm_infra", "peer", *arguments, "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def linked_connector(world: World, folder: Path, name: str, *options: str) -> Iterator[CulmProcess]:
    """A third connector of the deployment, with links to nodes."""
    command = ("connector", "run", "--listen", "none", "--dir", str(folder / name), *options)
    process = CulmProcess(f"the connector {name}", command, environment(world.kafka), folder / f"{name}.log")
    process.start()
    try:
        yield process
    finally:
        process.stop()


def until(world: World, process: CulmProcess, node: Node, condition: Any, what: str) -> None:
    """Wait; a failure shows what connector and node have said last."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        world.check()
        process.check()
        if time.monotonic() > deadline_s:
            said = [log.read_text(errors="replace")[-3_000:] for log in (process.log, node.log)]
            raise AssertionError("\n".join((f"not in time: {what}", *said)))
        time.sleep(0.25)


def truth(world: World, authors: Sequence[bytes]) -> dict[bytes, list[Bytes]]:
    """What `logs` holds of some authors, by author, each log in order."""
    found: dict[tuple[bytes, int], dict[int, Bytes]] = {}
    for message in read_to_end(world.kafka, "logs"):
        log = split_log_key(message.key)
        if log[0] in authors and message.value is not None:
            record = LogRecord.decode(message.value)
            found.setdefault(log, {})[record.seq_num] = (record.entry, record.operation)
    held: dict[bytes, list[Bytes]] = {}
    for (public_key, _), entries in sorted(found.items()):
        held.setdefault(public_key, []).extend(entries[seq_num] for seq_num in sorted(entries))
    return held


def written_by(author: GraphqlAuthor) -> list[Bytes]:
    in_order = sorted(author.written, key=lambda one: (one.entry.log_id, one.entry.seq_num))
    return [(one.entry_bytes, one.operation_bytes) for one in in_order]


def test_what_is_published_to_the_node_arrives_in_logs_and_at_peers(
    world: World, tmp_path: Path, program: Path
) -> None:
    (port,) = free_udp_ports(1)
    address = f"127.0.0.1:{port}"
    with (
        linked_connector(world, tmp_path, "north", "--listen-libp2p", address) as connector,
        running_node(tmp_path / "node", program, address) as node,
    ):
        ann, bob = GraphqlAuthor(node), GraphqlAuthor(node)
        name = ann.write("create", FIELDS, {"name": "name", "type": "str"})
        size = ann.write("create", FIELDS, {"name": "size", "type": "int"})
        described: dict[str, Value] = {
            "name": "venue",
            "description": "A place",
            "fields": ((name,), (size,)),
        }
        schema_id = f"venue_{ann.write('create', DEFINITIONS, described).hex()}"
        until(world, connector, node, lambda: node.knows(schema_id), "a schema at the node")
        for number in range(12):
            latest = ann.write("create", schema_id, {"name": f"venue {number}", "size": number})
            for turn in range(number % 4):
                writer = (bob, ann)[turn % 2]
                latest = writer.write("update", schema_id, {"size": 100 + turn}, [latest])
        ann.write("delete", schema_id, None, [latest])
        authors = (ann.key_pair.public_key, bob.key_pair.public_key)
        published = {one.key_pair.public_key: written_by(one) for one in (ann, bob)}
        until(world, connector, node, lambda: truth(world, authors) == published, "all entries in `logs`")

        async def at_a_peer() -> None:
            async with member(tmp_path, "peer", [schema_id]) as peer:
                peer.dial(world.west)
                in_schema = [
                    one for author in (ann, bob) for one in author.written if one.schema_id == schema_id
                ]
                wanted = {one.log: 0 for one in in_schema}
                for one in in_schema:
                    wanted[one.log] = max(wanted[one.log], one.entry.seq_num)
                await world.until(lambda: not peer.lacks(wanted), "the node's entries at a peer")

        asyncio.run(at_a_peer())


def test_what_peers_publish_arrives_in_the_node_and_is_materialised(
    world: World, tmp_path: Path, program: Path
) -> None:
    ann, bob = tmp_path / "ann", tmp_path / "bob"
    culm_peer(ann, "init")
    culm_peer(bob, "init")
    name = culm_peer(ann, "publish", "create", "name=name", "type=str", "--schema", FIELDS)
    size = culm_peer(ann, "publish", "create", "name=size", "type=int", "--schema", FIELDS)
    definition = culm_peer(
        ann,
        *("publish", "create", "name=venue", "description=A place"),
        *(f"fields:pinned_relation_list={name};{size}", "--schema", DEFINITIONS),
    )
    schema_id = f"venue_{definition}"
    # Culm carries what does not fit its schema; the node ends every session with it.
    misfits = {
        culm_peer(ann, "publish", "create", f"shape={n}", "--schema", schema_id) for n in ("round", "flat")
    }
    venue = culm_peer(ann, "publish", "create", "name=Hall", "size:int=1", "--schema", schema_id)
    west = f"127.0.0.1:{world.west.port}"
    every = [word for one in normalise([DEFINITIONS, FIELDS, schema_id]) for word in ("--schema", one)]
    culm_peer(ann, "sync", west, *every)
    with (
        running_node(tmp_path / "node", program) as node,
        linked_connector(world, tmp_path, "north", "--dial", str(node.multiaddr)) as connector,
    ):
        # One more author, whose operation comes between two of the first one: no order of whole logs fits.
        culm_peer(bob, "sync", west, *every)
        while not json.loads(culm_peer(bob, "status", "--json"))["entries"] >= 4:
            culm_peer(bob, "sync", west, *every)
        update = ("publish", "update", "--schema", schema_id, "--document", venue)
        culm_peer(bob, *update, "size:int=2")
        culm_peer(bob, "sync", west, *every)
        while "2" not in culm_peer(ann, "sync", west, *every, "--json"):
            pass
        culm_peer(ann, *update, "name=Hall of Culm")
        culm_peer(ann, "sync", west, *every)
        until(world, connector, node, lambda: node.knows(schema_id), "the schema at the node")

        def arrived() -> bool:
            return node.documents(schema_id, "name", "size") == {venue: {"name": "Hall of Culm", "size": 2}}

        until(world, connector, node, arrived, "the document at the node, with both updates")

        def is_told() -> bool:
            said = "".join(connector.log.read_text(errors="replace").split())
            return all(misfit in said for misfit in misfits)

        until(world, connector, node, is_told, "what the node does not take in the connector's log")


def write_together(world: World, connector: CulmProcess, nodes: Sequence[Node], schema_id: str) -> set[str]:
    """Three authors at each node write to documents at once; returns those that were deleted."""
    rng = random.Random(24)
    authors = {node.http_port: [GraphqlAuthor(node) for _ in range(3)] for node in nodes}
    for number in range(DOCUMENTS):
        for node in nodes:
            rng.choice(authors[node.http_port]).write("create", schema_id, {"name": f"{number}", "size": 0})
    deleted: set[str] = set()
    for turn in range(ROUNDS):
        for node in nodes:
            views = node.views(schema_id)
            chosen = rng.sample(sorted(views), min(len(views), DOCUMENTS))
            for position, document in enumerate(chosen):
                view = [bytes.fromhex(part) for part in views[document].split("_")]
                author = rng.choice(authors[node.http_port])
                try:
                    if position < DELETES:
                        author.write("delete", schema_id, None, view)
                        deleted.add(document)
                    else:
                        author.write("update", schema_id, {"size": 10 * turn + position}, view)
                except AssertionError as error:
                    # The other node's delete has come in between.
                    if "deleted" not in str(error):
                        raise
        # Some rounds see what the other node's authors wrote, the others write beside it.
        if turn % 2:
            until(
                world,
                connector,
                nodes[0],
                lambda: same_documents(nodes, schema_id, deleted),
                "the same at both nodes",
            )
    return deleted


def same_documents(nodes: Sequence[Node], schema_id: str, deleted: set[str]) -> bool:
    """Whether all nodes show the same views, but for deleted documents.

    What an aquadoggo shows of a document that is updated beside its delete depends on what it met first.
    """
    shown = []
    for node in nodes:
        views = node.views(schema_id) if node.knows(schema_id) else None
        shown.append(
            views and {document: view for document, view in views.items() if document not in deleted}
        )
    return shown[0] is not None and all(views == shown[0] for views in shown)


@pytest.mark.soak
def test_documents_of_six_authors_at_two_nodes_are_the_same_everywhere(
    world: World, tmp_path: Path, program: Path
) -> None:
    (port,) = free_udp_ports(1)
    address = f"127.0.0.1:{port}"
    with (
        linked_connector(world, tmp_path, "north", "--listen-libp2p", address) as connector,
        running_node(tmp_path / "a", program, address) as a,
        running_node(tmp_path / "b", program, address) as b,
    ):
        ann = GraphqlAuthor(a)
        name = ann.write("create", FIELDS, {"name": "name", "type": "str"})
        size = ann.write("create", FIELDS, {"name": "size", "type": "int"})
        described: dict[str, Value] = {
            "name": "venue",
            "description": "A place",
            "fields": ((name,), (size,)),
        }
        schema_id = f"venue_{ann.write('create', DEFINITIONS, described).hex()}"
        until(
            world, connector, b, lambda: a.knows(schema_id) and b.knows(schema_id), "the schema at both nodes"
        )
        deleted = write_together(world, connector, (a, b), schema_id)
        until(
            world,
            connector,
            b,
            lambda: same_documents((a, b), schema_id, deleted),
            "the same documents at both nodes",
        )
        assert len(a.views(schema_id)) == 2 * DOCUMENTS - len(deleted)
        assert a.documents(schema_id, "name", "size") == b.documents(schema_id, "name", "size")
        with running_node(tmp_path / "c", program, address) as c:
            until(
                world,
                connector,
                c,
                lambda: same_documents((a, c), schema_id, deleted),
                "all documents at an empty node",
            )
            assert c.documents(schema_id, "name", "size") == a.documents(schema_id, "name", "size")
        for node in (a, b, c):
            assert "not found in store" not in node.log.read_text(errors="replace")
        # An update beside a delete that only the node holds is refused, once; nothing else is.
        refused = set(re.findall(r"does not take document (\w+)", connector.log.read_text(errors="replace")))
        assert refused <= deleted
