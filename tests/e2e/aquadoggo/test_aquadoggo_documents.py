"""Documents of six authors at two real p2panda nodes: what Culm reduces is what both nodes show.

The nodes are linked to two connectors of one deployment; what is written at one reaches the other through
Kafka and the job `logs`. `CULM_AQUADOGGO_OPERATIONS` sets how many operations are written at least.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from culm_connectors.p2panda.reference_peer.documents import StoredDocuments
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.patience import Patience
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.documents.document import DocumentView
from culm_models.p2panda.operations.identifiers import DocumentId, normalise
from culm_topics.p2panda.documents.record import DocumentRecord
from tests.support.deployment.members import member
from tests.support.deployment.world import DEADLINE_S, World, frozen
from tests.support.p2panda.aquadoggo import (
    BUILD_TIMEOUT_S,
    DEFINITIONS,
    FIELDS,
    Node,
    linked_connector,
    require,
    running_node,
)
from tests.support.p2panda.document_authors import DocumentAuthors, SharedDocument
from tests.support.p2panda.document_rows import assert_shows
from tests.support.p2panda.documents_job import written
from tests.support.p2panda.graphql_documents import Comparison, ReadView, compare
from tests.support.p2panda.node_store import read_store

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(BUILD_TIMEOUT_S + 3_600),
]

OPERATIONS = int(os.environ.get("CULM_AQUADOGGO_OPERATIONS", "600"))
AUTHORS_EACH = 3
ROUNDS = 3
UPDATES = 3
"""Updates of each document at each node in each round."""
GUIDE_UPDATES = 2
PER_DOCUMENT = 1 + ROUNDS * 2 * UPDATES
_POLL_S = 0.5


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    """Asked for first: without it nothing needs to be started."""
    return require()


@dataclass
class Writing:
    """Two nodes with their connectors, and the authors who write at them."""

    world: World
    connectors: list[CulmProcess]
    nodes: dict[str, Node]
    authors: DocumentAuthors
    wrote_s: float = 0.0
    exchanged_s: float = 0.0

    def at_both(self, write: Callable[[str, random.Random], None]) -> None:
        """Write at both nodes beside each other, then wait until each has materialised everything."""
        with self.undisturbed(), ThreadPoolExecutor(len(self.nodes)) as pool:
            began_s = time.monotonic()
            seed = len(self.authors.written())
            done = [pool.submit(write, name, random.Random(f"{seed} {name}")) for name in self.nodes]
            for each in done:
                each.result()
            self.wrote_s += time.monotonic() - began_s
        self.exchange()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No session runs: an aquadoggo whose clients publish while it answers a peer may end in a panic."""
        self.until(
            lambda: all(node.is_between_sessions() for node in self.nodes.values()),
            "nodes between two sessions",
            lambda: [node.log.stat().st_size for node in self.nodes.values()],
        )
        with contextlib.ExitStack() as stack:
            for connector in self.connectors:
                stack.enter_context(frozen(connector.pid))
            yield

    def exchange(self) -> None:
        """Wait until both nodes have materialised all operations."""
        began_s = time.monotonic()
        written = {operation.hash.hex() for operation in self.authors.written()}
        materialised: dict[str, int] = dict.fromkeys(self.nodes, 0)

        def is_done() -> bool:
            for name, node in self.nodes.items():
                materialised[name] = len(self.materialised(node) & written)
            return all(number == len(written) for number in materialised.values())

        self.until(is_done, f"{len(written)} operations at both nodes", lambda: dict(materialised))
        self.authors.all_is_known()
        took_s = time.monotonic() - began_s
        self.exchanged_s += took_s
        print(f"{len(written)} operations are at both nodes, {took_s:.0f} s after the last was written")

    def materialised(self, node: Node) -> set[str]:
        """Return the ids of all operations of documents that a node has put in order."""
        stores = (read_store(node.database, schema_id) for schema_id in self.authors.schemas)
        return {
            operation_id
            for store in stores
            for operation_id, operation in store.operations.items()
            if operation.sorted_index is not None
        }

    def until(self, condition: Callable[[], object], what: str, progress: Callable[[], object]) -> None:
        """Wait while something progresses."""
        patience = Patience(DEADLINE_S, progress)

        def failure() -> str:
            logs = [*(node.log for node in self.nodes.values()), *(each.log for each in self.connectors)]
            ends = [f"{log}:\n{log.read_text(errors='replace')[-2_000:]}" for log in logs]
            return "\n".join((f"{what}, but {progress()}", *ends))

        while not condition():
            self.world.check()
            for connector in self.connectors:
                connector.check()
            patience.check(failure)
            time.sleep(_POLL_S)

    def compared(self, views: dict[DocumentId, DocumentView], read_view: ReadView) -> dict[str, Comparison]:
        """Compare views with what both nodes show, until nothing differs or changes."""
        results: dict[str, Comparison] = {}

        def is_equal() -> bool:
            for name, node in self.nodes.items():
                results[name] = compare(node, views, self.authors.schemas, read_view)
            return not any(result.differing for result in results.values())

        patience = Patience(20.0, lambda: [sorted(result.differing) for result in results.values()])
        while not is_equal() and not patience.is_over():
            time.sleep(_POLL_S)
        return results


def test_documents_of_six_authors_are_reduced_as_two_nodes_reduce_them(
    world: World, tmp_path: Path, program: Path
) -> None:
    with running_node(tmp_path / "a", program) as a, running_node(tmp_path / "b", program) as b:
        nodes = {"a": a, "b": b}
        authors = DocumentAuthors(nodes, AUTHORS_EACH)
        authors.define("a")

        def known(node: Node) -> int:
            return sum(node.knows(schema) for schema in authors.schemas)

        schemas = normalise([DEFINITIONS, FIELDS, *authors.schemas])
        options = [word for schema in schemas for word in ("--schema", schema)]
        with (
            linked_connector(world, tmp_path, "north", *options, "--dial", str(a.multiaddr)) as north,
            linked_connector(world, tmp_path, "south", *options, "--dial", str(b.multiaddr)) as south,
        ):
            writing = Writing(world, [north, south], nodes, authors)
            writing.until(
                lambda: all(known(node) == len(authors.schemas) for node in nodes.values()),
                "the schemas at both nodes",
                lambda: [known(node) for node in nodes.values()],
            )
            write_documents(writing)
            asyncio.run(at_a_peer(writing, tmp_path, schemas))


def write_documents(writing: Writing) -> None:
    """Create documents and write to them in rounds. In each, both nodes know what was written before it."""
    authors = writing.authors
    number = max(12, -(-OPERATIONS // PER_DOCUMENT))
    guides, tours = max(2, number // 25), max(4, number // 10)

    def create_guides(node: str, draw: random.Random) -> None:
        for _ in range(guides // 2):
            guide = authors.create(node, "guide", draw)
            for _ in range(GUIDE_UPDATES):
                authors.update(node, guide, draw)

    writing.at_both(create_guides)
    for schema, count in (("venue", number - tours), ("tour", tours)):

        def create(node: str, draw: random.Random, schema: str = schema, count: int = count) -> None:
            for _ in range(-(-count // 2)):
                authors.create(node, schema, draw)

        writing.at_both(create)
    written_to = [document for document in authors.documents if document.schema_id != authors.ids["guide"]]

    def update(node: str, draw: random.Random) -> None:
        for document in draw.choices(written_to, k=UPDATES * len(written_to)):
            authors.update(node, document, draw)

    for _ in range(ROUNDS):
        writing.at_both(update)
    writing.at_both(lambda node, draw: name_needlessly(authors, node, draw))
    deleted = [document for document in written_to if document.ends_with_a_head()][::10]

    def delete(node: str, draw: random.Random) -> None:
        for document in mine(deleted, node):
            authors.delete(node, document, draw)

    def mine(documents: list[SharedDocument], node: str) -> list[SharedDocument]:
        return documents[::2] if node == "a" else documents[1::2]

    writing.at_both(delete)


def name_needlessly(authors: DocumentAuthors, node: str, draw: random.Random) -> None:
    """Write documents in which an operation names another one and one before it; nodes may apply it twice."""
    for _ in range(5):
        document = authors.create(node, "venue", draw)
        for previous in ((-1,), (-1,), (-1, -2), (-1,)):
            operations = list(document.preceding)
            authors.update(node, document, draw, [operations[place] for place in previous])


def written_by_the_job(world: World, folder: Path) -> dict[bytes, bytes]:
    """Run the job `documents` over all that the deployment has. Returns its records."""
    arguments = ("job", "run", "documents", "--once", "--checkpoints", str(folder / "documents"))
    job = CulmProcess("the job documents", arguments, environment(world.kafka), folder / "documents.log")
    job.start()
    patience = Patience(DEADLINE_S, job.printed_bytes)
    while (status := job.ended(_POLL_S)) is None:
        patience.check(job.last_words)
    assert status == 0, job.last_words()
    return written(world.kafka)


async def at_a_peer(writing: Writing, folder: Path, schemas: Sequence[str]) -> None:
    """Compare what a peer of the deployment reduces with what both nodes show."""
    authors, world = writing.authors, writing.world
    wanted: dict[LogKey, int] = {}
    for operation in authors.written():
        wanted[operation.log] = max(wanted.get(operation.log, 0), operation.entry.seq_num)
    async with member(folder, "peer", schemas) as peer:
        peer.dial(world.west)
        await world.until(lambda: not peer.lacks(wanted), lambda: f"{peer.lacks(wanted)} entries at a peer")
        stored = StoredDocuments(peer.peer.store)
        assert {schema: stored.fields_of(schema) for schema in authors.schemas} == authors.schemas
        views: dict[DocumentId, DocumentView] = {}
        operations = 0
        for document in authors.documents:
            reduced = stored.document(document.id)
            assert reduced is not None
            assert (reduced.waiting, reduced.missing, reduced.refused, reduced.problems) == (0, (), {}, {})
            assert (reduced.view.fields is None) == document.deleted
            operations += reduced.operations
            views[document.id] = reduced.view
        from_kafka = written_by_the_job(world, folder)
        for document_id, view in views.items():
            assert_shows(DocumentRecord.decode(from_kafka[document_id]), view)
        assert operations == len(authors.written())
        results = writing.compared(views, stored.view)
    print(
        f"{operations} operations of {2 * AUTHORS_EACH} authors in {len(views)} documents: "
        f"written in {writing.wrote_s:.0f} s, exchanged in {writing.exchanged_s:.0f} s; views of "
        f"{sum(len(view.view_id) > 1 for view in views.values())} documents have several heads"
    )
    for name, result in results.items():
        print(
            f"node {name}: {result.equal} documents are equal, {result.deleted} of them deleted; "
            f"{result.pinned} pinned views are equal; {len(result.differing)} differ"
        )
    differing = [
        f"{name}, {key}:\n{text}"
        for name, result in results.items()
        for key, text in result.differing.items()
    ]
    assert not differing, "\n".join(differing[:20])
