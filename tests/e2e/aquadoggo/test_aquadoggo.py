"""A real p2panda node beside a deployment: both directions, whoever dials.

The node is a program that we did not write: aquadoggo 0.9.1, the deployed implementation of the protocol.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from culm_infra.stack.ports import free_ports
from culm_models.p2panda.operations.identifiers import normalise
from culm_topics.logs.records import LogRecord
from culm_topics.readers.partitions import read_to_end
from culm_topics.records import split_log_key
from tests.support.deployment.members import member
from tests.support.deployment.world import World
from tests.support.p2panda.aquadoggo import (
    BUILD_TIMEOUT_S,
    DEFINITIONS,
    FIELDS,
    GraphqlAuthor,
    linked_connector,
    require,
    running_node,
    until,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(BUILD_TIMEOUT_S + 300)]

Bytes = tuple[bytes, bytes]


@pytest.fixture(scope="session", autouse=True)
def program() -> Path:
    """Asked for first: without it nothing needs to be started."""
    return require()


def culm_peer(folder: Path, *arguments: str) -> str:
    """`culm p2panda peer ... --dir FOLDER`; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "culm_infra", "p2panda", "peer", *arguments, "--dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def truth(world: World, authors: Sequence[bytes]) -> dict[bytes, list[Bytes]]:
    """What `logs` holds of some authors, by author, each log in order."""
    logs: dict[tuple[bytes, int], dict[int, Bytes]] = {}
    for message in read_to_end(world.kafka, "logs"):
        log = split_log_key(message.key)
        if log[0] in authors and message.value is not None:
            record = LogRecord.decode(message.value)
            logs.setdefault(log, {})[record.seq_num] = (record.entry, record.operation)
    by_author: dict[bytes, list[Bytes]] = {}
    for (public_key, _), entries in sorted(logs.items()):
        by_author.setdefault(public_key, []).extend(entries[seq_num] for seq_num in sorted(entries))
    return by_author


def written_by(author: GraphqlAuthor) -> list[Bytes]:
    in_order = sorted(author.written, key=lambda operation: (operation.entry.log_id, operation.entry.seq_num))
    return [(operation.entry_bytes, operation.payload_bytes) for operation in in_order]


def test_what_is_published_to_the_node_arrives_in_logs_and_at_peers(
    world: World, tmp_path: Path, program: Path
) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with (
        linked_connector(world, tmp_path, "north", "--listen-libp2p", address) as connector,
        running_node(tmp_path / "node", program, address) as node,
    ):
        ann, bob = GraphqlAuthor(node), GraphqlAuthor(node)
        schema_id = ann.define_venues()
        until(world, connector, node, lambda: node.knows(schema_id), "a schema at the node")
        for number in range(12):
            latest = ann.write("create", schema_id, {"name": f"venue {number}", "size": number})
            for turn in range(number % 4):
                writer = (bob, ann)[turn % 2]
                latest = writer.write("update", schema_id, {"size": 100 + turn}, [latest])
        ann.write("delete", schema_id, None, [latest])
        authors = (ann.key_pair.public_key, bob.key_pair.public_key)
        published = {author.key_pair.public_key: written_by(author) for author in (ann, bob)}
        until(world, connector, node, lambda: truth(world, authors) == published, "all entries in `logs`")

        async def at_a_peer() -> None:
            async with member(tmp_path, "peer", [schema_id]) as peer:
                peer.dial(world.west)
                in_schema = [
                    operation
                    for author in (ann, bob)
                    for operation in author.written
                    if operation.schema_id == schema_id
                ]
                wanted = {operation.log: 0 for operation in in_schema}
                for operation in in_schema:
                    wanted[operation.log] = max(wanted[operation.log], operation.entry.seq_num)
                await world.until(lambda: not peer.lacks(wanted), "the node's entries at a peer")

        asyncio.run(at_a_peer())


def test_what_peers_publish_arrives_in_the_node_and_is_materialised(
    world: World, tmp_path: Path, program: Path
) -> None:
    ann, bob, eve = tmp_path / "ann", tmp_path / "bob", tmp_path / "eve"
    for peer in (ann, bob, eve):
        culm_peer(peer, "init")
    name = culm_peer(ann, "publish", "create", "name=name", "type=str", "--schema", FIELDS)
    size = culm_peer(ann, "publish", "create", "name=size", "type=int", "--schema", FIELDS)
    definition = culm_peer(
        ann,
        *("publish", "create", "name=venue", "description=A place"),
        *(f"fields:pinned_relation_list={name};{size}", "--schema", DEFINITIONS),
    )
    schema_id = f"venue_{definition}"
    # Culm carries what does not fit its schema, from a peer that does not know it; the node ends every
    # session with it.
    misfits = {
        culm_peer(eve, "publish", "create", f"shape={n}", "--schema", schema_id) for n in ("round", "flat")
    }
    venue = culm_peer(ann, "publish", "create", "name=Hall", "size:int=1", "--schema", schema_id)
    west = f"127.0.0.1:{world.west.port}"
    every = [word for schema in normalise([DEFINITIONS, FIELDS, schema_id]) for word in ("--schema", schema)]
    culm_peer(ann, "sync", west, *every)
    culm_peer(eve, "sync", west, *every)
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
            log_text = "".join(connector.log.read_text(errors="replace").split())
            return all(misfit in log_text for misfit in misfits)

        until(world, connector, node, is_told, "what the node does not take in the connector's log")
