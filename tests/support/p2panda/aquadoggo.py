"""aquadoggo, the p2panda node, as a process: found or built once, started, spoken to over GraphQL.

Its sources are in `tests/aquadoggo`, a folder with a licence of its own. `CULM_AQUADOGGO` says what is done
where the program is not in the cache: `build` it, or skip (the default); `off` skips always.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from culm_connectors.transport.libp2p.multiaddr import Multiaddr
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.patience import Patience
from culm_infra.stack.ports import free_ports
from culm_models.bamboo import sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import (
    Action,
    CheckedOperation,
    Value,
    check_entry,
    encode_operation,
)
from tests.support.deployment.world import DEADLINE_S, World

FIELDS = "schema_field_definition_v1"
DEFINITIONS = "schema_definition_v1"
SWITCH = "CULM_AQUADOGGO"
BUILD_TIMEOUT_S = 1_500
_SOURCES = Path(__file__).parents[2] / "aquadoggo"
_NAME = "culm-test-node"
_DEADLINE_S = 30.0


def cache() -> Path:
    """Where the program and its build are kept."""
    return platformdirs.user_cache_path("culm") / "aquadoggo"


def program() -> Path:
    """Where the program is, or will be: its name follows from its sources."""
    digest = hashlib.sha256()
    for path in (_SOURCES / "Cargo.toml", _SOURCES / "src" / "main.rs"):
        digest.update(path.read_bytes())
    return cache() / f"{_NAME}-{digest.hexdigest()[:12]}"


def build() -> Path:
    """Build the program where it is missing: minutes of one core, once."""
    target = program()
    if target.exists():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as folder:
        # A copy, so that no lock file comes to lie among the sources.
        sources = Path(folder) / "sources"
        shutil.copytree(_SOURCES, sources)
        subprocess.run(
            ["cargo", "build", "--release", "--jobs", "1"],
            cwd=sources,
            env=os.environ | {"CARGO_TARGET_DIR": str(cache() / "target")},
            timeout=BUILD_TIMEOUT_S,
            check=True,
        )
    # Renamed into its place, so that nobody finds a part of it.
    made = target.with_suffix(".new")
    shutil.copy2(cache() / "target" / "release" / _NAME, made)
    made.rename(target)
    return target


def require() -> Path:
    """The program; skips the test, with the reason, where there is none to be had."""
    wish = os.environ.get(SWITCH, "")
    if wish == "off":
        pytest.skip(f"{SWITCH}=off")
    if not _SOURCES.exists():
        pytest.skip("no aquadoggo node: its sources, tests/aquadoggo, are in the repository alone")
    if program().exists():
        return program()
    if wish != "build":
        pytest.skip(f"no aquadoggo node: {SWITCH}=build builds one in 8 minutes (or see tests/aquadoggo)")
    if shutil.which("cargo") is None:
        pytest.skip("no aquadoggo node: building one needs cargo, the Rust toolchain")
    return build()


@dataclass
class Node:
    """A running node."""

    key_pair: KeyPair
    http_port: int
    quic_port: int
    log: Path
    database: Path
    process: subprocess.Popen[str]

    @property
    def multiaddr(self) -> Multiaddr:
        """Where to dial it, and who it is."""
        return Multiaddr(("127.0.0.1", self.quic_port), self.key_pair.public_key)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """What GraphQL answers. Raises AssertionError with the node's errors."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_DEADLINE_S) as response:
            answer: dict[str, Any] = json.load(response)
        assert not answer.get("errors"), answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def next_arguments(self, public_key: bytes, view_id: Sequence[bytes] = ()) -> dict[str, Any]:
        """`nextArgs`: log id and sequence number of an author's next entry, with its links."""
        arguments: dict[str, Any] = self.ask(
            "query ($key: PublicKey!, $view: DocumentViewId) "
            "{ nextArgs(publicKey: $key, viewId: $view) { logId seqNum backlink skiplink } }",
            key=public_key.hex(),
            view="_".join(operation_id.hex() for operation_id in view_id) or None,
        )["nextArgs"]
        return arguments

    def publish(self, checked: CheckedOperation) -> None:
        """`publish` an entry and its operation."""
        self.ask(
            "mutation ($entry: EncodedEntry!, $operation: EncodedOperation!) "
            "{ publish(entry: $entry, operation: $operation) { logId } }",
            entry=checked.entry_bytes.hex(),
            operation=checked.payload_bytes.hex(),
        )

    def is_between_sessions(self) -> bool:
        """Whether the last session that it began is over."""
        log_text = self.log.read_text(errors="replace")
        return log_text.rfind("Initiate outbound replication session") < max(
            log_text.rfind("Finished replication with peer"), log_text.rfind("Replication failed")
        )

    def sessions_finished(self) -> int:
        """How many sessions came to a good end."""
        return self.log.read_text(errors="replace").count("Finished replication with peer")

    def knows(self, schema_id: str) -> bool:
        """Whether the node has materialised a schema, so that documents of it can be asked for."""
        types = self.ask("{ __schema { queryType { fields { name } } } }")["__schema"]["queryType"]["fields"]
        return any(field["name"] == f"all_{schema_id}" for field in types)

    def documents(self, schema_id: str, *fields: str) -> dict[str, dict[str, Any]]:
        """The materialised documents of a schema: their fields by document id."""
        answer = self.ask(
            f"{{ all_{schema_id}(first: 10000) {{ documents {{ meta {{ documentId }} "
            f"fields {{ {' '.join(fields)} }} }} }} }}"
        )
        documents = answer[f"all_{schema_id}"]["documents"]
        return {document["meta"]["documentId"]: document["fields"] for document in documents}

    def views(self, schema_id: str) -> dict[str, str]:
        """The newest view id of the materialised documents of a schema, by document id."""
        answer = self.ask(
            f"{{ all_{schema_id}(first: 10000) {{ documents {{ meta {{ documentId viewId }} }} }} }}"
        )
        metas = (document["meta"] for document in answer[f"all_{schema_id}"]["documents"])
        return {meta["documentId"]: meta["viewId"] for meta in metas}


@contextlib.contextmanager
def running_node(folder: Path, program: Path, *dial: str) -> Iterator[Node]:
    """A node with a new key and an empty store; `dial` are addresses, HOST:PORT, that it calls."""
    folder.mkdir(parents=True, exist_ok=True)
    key_pair = KeyPair.generate(secrets.token_bytes(32))
    quic_port, http_port = free_ports(2)
    log, database = folder / "node.log", folder / "node.sqlite"
    command = [program, key_pair.private_key.hex(), database, http_port, quic_port, *dial]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"RUST_LOG": "aquadoggo=debug"},
        )
    assert process.stdin is not None and process.stdout is not None
    try:
        while not (line := process.stdout.readline()).startswith("ready "):
            assert line, f"the node ended: {log.read_text()[-2_000:]}"
        yield Node(key_pair, http_port, quic_port, log, database, process)
    finally:
        process.stdin.close()
        try:
            process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class GraphqlAuthor:
    """Writes by asking the node what its next entry looks like, as p2panda's clients do."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.key_pair = KeyPair.generate(uuid.uuid4().bytes * 2)
        self.written: list[CheckedOperation] = []

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

    def define_venues(self) -> str:
        """Publish a schema with two fields, `name` and `size`; returns its id."""
        name = self.write("create", FIELDS, {"name": "name", "type": "str"})
        size = self.write("create", FIELDS, {"name": "size", "type": "int"})
        described: dict[str, Value] = {
            "name": "venue",
            "description": "A place",
            "fields": ((name,), (size,)),
        }
        return f"venue_{self.write('create', DEFINITIONS, described).hex()}"


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


def until(
    world: World,
    process: CulmProcess,
    node: Node,
    condition: Callable[[], object],
    what: str,
    report: Callable[[], str] = str,
) -> None:
    """Wait while connector or node say anything; a failure shows what both have said last, and the report."""
    logs = (process.log, node.log)

    def failure() -> str:
        log_ends = [log.read_text(errors="replace")[-3_000:] for log in logs]
        return "\n".join((what, *log_ends, report()))

    patience = Patience(DEADLINE_S, lambda: [log.stat().st_size for log in logs])
    while not condition():
        world.check()
        process.check()
        patience.check(failure)
        time.sleep(0.25)
