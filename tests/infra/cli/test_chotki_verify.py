"""`culm chotki verify` and `dump URL` on the real broker, against replicas that listen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.cli.kit.output import EXIT_DEGRADED
from culm_infra.patience import Patience
from culm_models.chotki.dump import dump
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, Id, object_key
from culm_models.chotki.rdx import delta, parse_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from tests.support.chotki.bridge import chotki_settings
from tests.support.chotki.shell import Shell

pytestmark = pytest.mark.kafka


@contextlib.contextmanager
def listening(replica: Replica) -> Iterator[str]:
    """The replica at an address, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = serve_tcp(("127.0.0.1", 0), ReplicaPeer(replica).run_session, TcpSettings())

    async def start() -> str:
        listener = await served.__aenter__()
        return f"tcp://127.0.0.1:{listener.address[1]}"

    async def stop() -> None:
        await served.__aexit__(None, None, None)

    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def shell(
    kafka_bootstrap: str,
    topic_prefix: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(chotki_settings(kafka_bootstrap, topic_prefix), capsys)


def with_a_person(shell: Shell) -> Replica:
    """A deployment with an object, and a replica that holds the same."""
    shell.text("class", "person", "Name:S", "Visits:N", "--source", "10", "--owner", "me")
    shell.text("new", "person", "Name=Ann", "Visits=2", "--name", "ann", "--owner", "me")
    shell.job.run()
    return Replica(0xA, MemoryStore(shell.job.job.values()))


def told(shell: Shell, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert shell.culm("verify", *arguments, "--json") == EXIT_DEGRADED
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def text_of(shell: Shell, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert shell.culm(*arguments) == EXIT_DEGRADED
    return capsys.readouterr().out


def test_a_replica_that_holds_the_same_is_told_so(shell: Shell) -> None:
    replica = with_a_person(shell)
    before = replica.store.values()
    with listening(replica) as url:
        (report,) = shell.lines("verify", url)
        assert shell.alone("dump", url) == shell.text("dump") == dump(before)
    assert report["equal"]
    assert (report["blocks"], report["fields"]) == ([], [])
    assert report["vector"] == {"deployment_lacks": [], "replica_lacks": []}
    assert report["compared_fields"] == sum(key[0] == ord("O") for key in before)
    assert replica.store.values() == before


def test_what_differs_is_told_by_block_and_by_the_side_that_lacks_it(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = with_a_person(shell)
    ann = Id.make(0x10, 3)
    old = replica.store.get(object_key(Id.make(0x10, 3, 1), "S")) or b""
    operand = delta("S", old, parse_text("S", '"Anna"'))
    replica.commit("E", ann, record("f", b"\x01") + record("S", operand), 0)
    shell.text("edit", "ann", "Visits+=3", "--owner", "me")
    shell.job.run()
    with listening(replica) as url:
        report = told(shell, capsys, url)
        text = text_of(shell, capsys, "verify", url)
    assert not report["equal"]
    assert report["vector"] == {"deployment_lacks": ["a-1"], "replica_lacks": ["10-5"]}
    (block,) = report["blocks"]
    assert (block["block"], block["fields"], block["replica_lacks"]) == ("10-0", 2, 1)
    by_type = {field["type"]: field for field in report["fields"]}
    assert (by_type["N"]["deployment"], by_type["N"]["replica"], by_type["N"]["lacks"]) == (
        "5",
        "2",
        "replica",
    )
    assert by_type["S"]["replica"] == '"Anna"'
    assert by_type["S"]["lacks"] == "deployment"
    assert "10-3-2.N" in text and "replica" in text


def test_while_they_differ_it_looks_again_for_as_long_as_is_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = with_a_person(shell)
    shell.text("edit", "ann", "Visits+=3", "--owner", "me")
    shell.job.run()
    merged = shell.job.job.values()

    def catch_up(_: float) -> None:
        replica.store.merge([(key, value, None) for key, value in merged.items() if key != GLOBAL_VECTOR_KEY])
        replica.store.merge([(GLOBAL_VECTOR_KEY, merged[GLOBAL_VECTOR_KEY], None)])

    monkeypatch.setattr("culm_infra.cli.chotki.replica.time", SimpleNamespace(sleep=catch_up))
    with listening(replica) as url:
        assert shell.lines("verify", url, "--settle", "60")[0]["equal"]
    assert replica.store.get(object_key(Id.make(0x10, 3, 2), "N")) is not None


def test_it_looks_again_for_as_long_as_the_difference_shrinks(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = with_a_person(shell)
    shell.text("edit", "ann", "Visits+=3", "--owner", "me")
    shell.job.run()
    merged = shell.job.job.values()
    # The global vector comes last: until then they differ, by less each time.
    lacking = sorted(merged, key=lambda key: key == GLOBAL_VECTOR_KEY)
    passed_s = 0.0

    def catch_up(_: float) -> None:
        nonlocal passed_s
        passed_s += 40.0
        for key in lacking[: max(len(lacking) // 2, 1)]:
            replica.store.merge([(key, merged[key], None)])
            lacking.remove(key)

    patience = partial(Patience, clock_s=lambda: passed_s)
    monkeypatch.setattr("culm_infra.cli.chotki.replica.time", SimpleNamespace(sleep=catch_up))
    monkeypatch.setattr("culm_infra.cli.chotki.replica.Patience", patience)
    with listening(replica) as url:
        # A block's vector alone changes nothing that is compared.
        assert shell.lines("verify", url, "--settle", "100")[0]["equal"]
    assert passed_s > 100


def test_an_address_that_is_none_and_a_replica_that_is_not_there_say_what_to_do(shell: Shell) -> None:
    assert shell.culm("verify", "replica.example") == 2
    assert shell.culm("dump", "http://replica.example:4321") == 2
    with listening(Replica(0xA)) as url:
        pass
    assert "nothing listens" in shell.error("verify", url)
