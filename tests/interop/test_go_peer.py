"""A peer in Go, written from docs/p2panda-quic.md, with our connector and our reference peer: both roles."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.transport import CloseCode, TransportSettings
from culm_models.bamboo.hashes import hash_bytes
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_topics.kafka.clients import KafkaSettings
from tests.interop.go_peer import build
from tests.interop.go_peer import running as running_go
from tests.support.connectors.edge import connector, reference_peer, running, write_document
from tests.support.p2panda.logs import SCHEMA, author, make_log, pairs
from tests.support.process.waiting import until

# The connector's role needs a broker, and so the program is built in one process alone.
pytestmark = pytest.mark.kafka

GO = author("go")
# More than a connection may have on its way before something of it is acknowledged.
LARGE = 2_000


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("go"))


def named(*logs: Iterable[CheckedOperation]) -> dict[tuple[bytes, int, int], bytes]:
    """The hash of each entry by its name, as the Go peer tells them."""
    return {(*operation.log, operation.entry.seq_num): operation.hash for log in logs for operation in log}


def hash_held(peer: ReferencePeer, log_id: int) -> bytes:
    """The hash of the first entry that a peer holds of a log of the Go peer's."""
    ((entry, _),) = peer.store.entries(GO.public_key, log_id, 1, 1)
    return hash_bytes(entry)


async def test_go_dials_a_connector(tmp_path: Path, kafka: KafkaSettings, program: Path) -> None:
    async with (
        running(connector(tmp_path / "edge", kafka)) as edge,
        reference_peer(tmp_path, "a") as a,
    ):
        assert edge.address is not None
        host, port = edge.address
        before = await write_document(a, 20)
        a.dial(edge.address)
        await until(lambda: edge.driver.metrics.entries_accepted == len(before))
        dialling = ("-connect", f"{host}:{port}", "-peer", edge.driver.peer.peer_id.hex())
        async with running_go(program, GO.private_key, SCHEMA, *dialling) as go:
            await go.until_said("live")
            # Some of them perhaps only then: they were taken from the other peer, and are stored soon.
            await go.until_said("entry", len(before))
            log_id, entry_hash = await go.publish("name=live")
            await a.wait_until_holding({(GO.public_key, log_id): 1}, 30)
            assert hash_held(a, log_id) == entry_hash
            later = await write_document(a, 3)
            await go.until_said("entry", len(before) + len(later))
            assert go.entries == named(before, later)
            await go.leave()
        assert edge.driver.metrics.rejects == {}


async def test_a_connector_that_does_not_know_the_key_says_so(
    tmp_path: Path, kafka: KafkaSettings, program: Path
) -> None:
    allowed = tmp_path / "peers.toml"
    allowed.write_text(f'[peers]\n{author("somebody else").public_key.hex()} = ["*"]\n')
    async with running(connector(tmp_path / "edge", kafka, allow_list=allowed)) as edge:
        assert edge.address is not None
        host, port = edge.address
        async with running_go(program, GO.private_key, SCHEMA, "-connect", f"{host}:{port}") as go:
            status, errors = await go.ended()
            assert status == 1
            assert f"0x{CloseCode.IDENTITY:x}" in errors


async def test_go_is_dialled(tmp_path: Path, program: Path) -> None:
    before = make_log(author("a"), 7, 20)
    async with (
        running_go(program, GO.private_key, SCHEMA, "-listen", "127.0.0.1:0") as go,
        reference_peer(tmp_path, "a", schemas=[SCHEMA]) as a,
    ):
        (address,) = await go.until_said("listening")
        await a.add(pairs(before))
        host, _, port = address.rpartition(":")
        a.dial((host, int(port)), GO.public_key)
        await go.until_said("live")
        assert go.entries == named(before)
        live_id, entry_hash = await go.publish("name=live")
        await a.wait_until_holding({(GO.public_key, live_id): 1}, 30)
        assert hash_held(a, live_id) == entry_hash
        await a.add(pairs(make_log(author("a"), 7, 1, after=before)))
        await go.until_said("entry", len(before) + 1)
        await go.leave()


@pytest.mark.parametrize("go_dials", [True, False])
async def test_large_answers_reach_a_peer_that_takes_small_datagrams(
    tmp_path: Path, program: Path, *, go_dials: bool
) -> None:
    """quic-go takes 1,452 bytes at most; over loopback we would send 8,900 to our own."""
    log = make_log(author("a"), 0, LARGE)
    transport = TransportSettings(datagram_bytes="auto")
    async with reference_peer(tmp_path, "a", schemas=[SCHEMA], transport=transport) as a:
        await a.add(pairs(log))
        async with a.serve() as listener:
            host, port = listener.address
            role = ("-connect", f"{host}:{port}") if go_dials else ("-listen", "127.0.0.1:0")
            async with running_go(program, GO.private_key, SCHEMA, *role) as go:
                if not go_dials:
                    (address,) = await go.until_said("listening")
                    host, _, number = address.rpartition(":")
                    a.dial((host, int(number)), GO.public_key)
                await go.until_said("live")
                assert go.entries == named(log)
                await go.leave()
