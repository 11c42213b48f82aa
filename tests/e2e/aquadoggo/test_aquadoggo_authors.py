"""Two real p2panda nodes, and a third that comes later: documents that six authors write to together."""

from __future__ import annotations

import contextlib
import random
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from culm_connectors.logs.index import LmdbLogStore
from culm_infra.demo.kit.processes import CulmProcess
from culm_infra.stack.ports import free_ports
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, peek
from culm_topics.logs.records import LogRecord
from culm_topics.readers.partitions import read_to_end
from tests.support.deployment.world import World, frozen
from tests.support.p2panda.aquadoggo import (
    BUILD_TIMEOUT_S,
    DEFINITIONS,
    FIELDS,
    GraphqlAuthor,
    Node,
    linked_connector,
    require,
    running_node,
    until,
)
from tests.support.p2panda.node_store import HeldOperation, NodeStore, read_store, report

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(BUILD_TIMEOUT_S + 300),
]

DOCUMENTS = 60
"""Created at each of two nodes."""
ROUNDS = 4
"""In each of them authors at either node write to as many documents."""
DELETES = 2
"""Documents deleted at each node in each round."""


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    """Asked for first: without it nothing needs to be started."""
    return require()


@dataclass
class Company:
    """Three authors at each of two nodes, who write to the same documents."""

    world: World
    connector: CulmProcess
    index: Path
    nodes: dict[str, Node]
    schema_id: str
    deleted: set[str] = field(default_factory=set)
    """Documents for which somebody has written a delete."""

    def write(self) -> None:
        """Create documents at every node, then write to them in rounds, at all nodes in each."""
        rng = random.Random(24)
        authors = {name: [GraphqlAuthor(node) for _ in range(3)] for name, node in self.nodes.items()}
        with self.undisturbed():
            for number in range(DOCUMENTS):
                for name in self.nodes:
                    rng.choice(authors[name]).write(
                        "create", self.schema_id, {"name": f"{number}", "size": 0}
                    )
        for turn in range(ROUNDS):
            with self.undisturbed():
                for name, node in self.nodes.items():
                    self.write_round(rng, turn, node, authors[name])
            # Some rounds see what the other node's authors wrote, the others write beside it.
            if turn % 2:
                self.until_the_same(f"round {turn}")

    def write_round(self, rng: random.Random, turn: int, node: Node, authors: list[GraphqlAuthor]) -> None:
        """Delete some of the documents that a node shows, and update others."""
        views = node.views(self.schema_id)
        for position, document in enumerate(rng.sample(sorted(views), min(len(views), DOCUMENTS))):
            view = [bytes.fromhex(part) for part in views[document].split("_")]
            author = rng.choice(authors)
            try:
                if position < DELETES:
                    author.write("delete", self.schema_id, None, view)
                    self.deleted.add(document)
                else:
                    author.write("update", self.schema_id, {"size": 10 * turn + position}, view)
            except AssertionError as error:
                # The node holds a delete that it could not materialise.
                if "deleted" not in str(error):
                    raise

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No session runs: an aquadoggo whose clients publish while it answers a peer may end in a panic.

        It stores an entry and its operation one after the other, and takes an entry alone for damage.
        """
        nodes = self.nodes.values()
        self.until(lambda: all(node.is_between_sessions() for node in nodes), "nodes between two sessions")
        with frozen(self.connector.pid):
            yield

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait; a failure says what differs between the nodes."""
        *_, latest = self.nodes.values()
        until(self.world, self.connector, latest, condition, what, self.report)

    def until_the_same(self, what: str) -> None:
        """Wait until all nodes show the same documents."""
        began_s = time.monotonic()
        self.until(self.is_the_same, f"{what}: the same documents")
        print(
            f"{what}: the same documents at {', '.join(self.nodes)} after {time.monotonic() - began_s:.0f} s"
        )

    def is_the_same(self) -> bool:
        """Whether all nodes show the same views, but for deleted documents."""
        if not all(node.knows(self.schema_id) for node in self.nodes.values()):
            return False
        first, *others = (self.shown(node) for node in self.nodes.values())
        return all(views == first for views in others)

    def shown(self, node: Node) -> dict[str, str]:
        """The views that a node shows of documents that nobody has deleted."""
        views = node.views(self.schema_id)
        return {document: view for document, view in views.items() if document not in self.deleted}

    def deletes_are_settled(self) -> bool:
        """Whether no node shows a deleted document, but for those whose delete a node has not materialised.

        Where a delete comes before an update that was written beside it in the order that aquadoggo makes, it
        fails to: it shows the document on, and tells nobody of a delete of its own.
        """
        failed = set().union(*(store.not_materialised() for store in self.stores().values()))
        return all(node.views(self.schema_id).keys() & self.deleted <= failed for node in self.nodes.values())

    def stores(self) -> dict[str, NodeStore]:
        """What the nodes hold."""
        return {name: read_store(node.database, self.schema_id) for name, node in self.nodes.items()}

    def in_logs(self) -> dict[str, HeldOperation]:
        """What `logs` holds of the schema, by operation id."""
        operations: dict[str, CheckedOperation] = {}
        for message in read_to_end(self.world.kafka, "logs"):
            if message.value is not None:
                record = LogRecord.decode(message.value)
                checked = check_entry(record.entry, record.operation, verify_signature=False)
                if checked.schema_id == self.schema_id:
                    operations[checked.hash.hex()] = checked
        return {key: _held(checked, operations) for key, checked in operations.items()}

    def left(self) -> set[str]:
        """The documents that `logs` knows, without those that it knows to be deleted."""
        in_logs = self.in_logs().values()
        deleted = {operation.document_id for operation in in_logs if operation.action == "delete"}
        return {operation.document_id for operation in in_logs} - deleted

    def report(self) -> str:
        """What differs between the nodes, the index and `logs`. The connector is stopped for it."""
        self.connector.stop()
        in_logs = self.in_logs()
        index = LmdbLogStore(peek, self.index)
        indexed = {
            key: operation
            for key, operation in in_logs.items()
            if index.place_of(bytes.fromhex(key)) is not None
        }
        index.close()
        return report(self.stores(), {"index": indexed, "logs": in_logs}, self.deleted)


def _held(checked: CheckedOperation, everything: Mapping[str, CheckedOperation]) -> HeldOperation:
    first = checked
    while first.facts.previous:
        first = everything[first.facts.previous[0].hex()]
    operation_place = (checked.entry.public_key.hex(), checked.entry.log_id, checked.entry.seq_num)
    return HeldOperation(first.hash.hex(), checked.facts.action, operation_place, None)


def test_documents_of_six_authors_at_two_nodes_are_the_same_everywhere(
    world: World, tmp_path: Path, program: Path
) -> None:
    with running_node(tmp_path / "a", program) as a, running_node(tmp_path / "b", program) as b:
        schema_id = GraphqlAuthor(a).define_venues()
        until(world, world.jobs, a, lambda: a.knows(schema_id), "the schema at the node that has it")
        with linked_connector(world, tmp_path, "north", *calls(schema_id, a, b)) as connector:
            company = Company(world, connector, tmp_path / "north" / "index", {"a": a, "b": b}, schema_id)
            company.until(lambda: b.knows(schema_id), "the schema at the other node")
            company.write()
            company.until_the_same("all is written")
            company.until(company.deletes_are_settled, "every delete at both nodes")
            assert len(company.shown(a)) == 2 * DOCUMENTS - len(company.deleted)
            an_empty_node_gets_everything_once(company, tmp_path, program)
            check_operations(company)
            # An update beside a delete that only the node holds is refused; nothing else is.
            log_text = connector.log.read_text(errors="replace")
            refused = set(re.findall(r"does not take document (\w+)", log_text))
            print(f"refused: what was written beside the deletes of {len(refused)} documents")
            assert refused <= company.deleted


def an_empty_node_gets_everything_once(company: Company, folder: Path, program: Path) -> None:
    """A third node, at a connector that begins with an empty index: it meets only what that one chooses."""
    (metrics_port,), schema_id = free_ports(1), company.schema_id
    with running_node(folder / "c", program) as node:
        options = (*calls(schema_id, node), "--metrics-port", str(metrics_port))
        with linked_connector(company.world, folder, "south", *options):
            company.nodes["c"] = node
            company.until_the_same("an empty node")
            company.until(lambda: node.views(schema_id).keys() == company.left(), "the deletes at it")
            fields = [node.documents(schema_id, "name", "size") for node in company.nodes.values()]
            assert all(
                by_document[document] == fields[0][document]
                for by_document in fields
                for document in company.shown(node)
            )
            # A whole session more, behind the one that may be under way, finds nothing to be sent.
            sessions = node.sessions_finished()
            company.until(lambda: node.sessions_finished() > sessions + 1, "two sessions more")
            store = read_store(node.database, schema_id)
            assert store.entries == entries_sent(metrics_port)
            assert not store.not_materialised()
            assert company.deletes_are_settled()
            assert "Replication failed" not in node.log.read_text(errors="replace")
            print(f"{store.entries} entries were sent to the empty node, each once")


def check_operations(company: Company) -> None:
    """Whether every node holds all operations of what nobody deleted, and what it did not materialise."""
    in_logs, stores = company.in_logs(), company.stores()
    for document in company.shown(company.nodes["a"]):
        operations = {key for key, operation in in_logs.items() if operation.document_id == document}
        assert [store.operations_of(document) for store in stores.values()] == [operations] * len(stores)
    failed = {name: store.not_materialised() for name, store in stores.items()}
    print(
        "deleted, but not materialised as deleted:",
        {name: len(documents) for name, documents in failed.items()},
    )
    assert set().union(*failed.values()) <= company.deleted
    for node in company.nodes.values():
        assert "not found in store" not in node.log.read_text(errors="replace")


def calls(schema_id: str, *nodes: Node) -> list[str]:
    """The options of a connector that calls nodes, and serves one schema with what it is made of."""
    schemas = [word for schema in (DEFINITIONS, FIELDS, schema_id) for word in ("--schema", schema)]
    return [*schemas, *(word for node in nodes for word in ("--dial", str(node.multiaddr)))]


def entries_sent(metrics_port: int) -> int:
    """How many entries a connector has sent to nodes."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
        metrics = answer.read().decode()
    (count,) = re.findall(r"^culm_p2panda_node_entries_sent_total (\S+)$", metrics, re.MULTILINE)
    return int(float(count))
