"""`culm bamboo` in two processes and more: logs, proofs, failover, payloads that go on after a SIGKILL."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF
from culm_models.keys import KeyPair
from tests.support.bamboo.edge import command, running, serving
from tests.support.connectors.channels import Certificates

AUTHOR = KeyPair.generate(b"author of logs for commands")
KEY = AUTHOR.public_key.hex()
LOG, NAME = (AUTHOR.public_key, 0), f"{KEY}/0"
LONG = 10_000


def filled(folder: Path, length: int, *, log_ids: tuple[int, ...] = (0,), size: int = 20) -> Path:
    store = FolderStore(folder, YAMF)
    with store.exclusively():
        for log_id in log_ids:
            for number in range(length):
                publish(store, AUTHOR, log_id, number.to_bytes(size, "big"))
    store.close()
    return folder


async def test_a_log_comes_whole_and_a_dry_run_tells_of_it_before(tmp_path: Path) -> None:
    theirs = str(tmp_path / "theirs")
    async with serving(filled(tmp_path / "mine", 50)) as served:
        to_them = ("sync", served.url, "--dir", theirs, "--log", NAME, "--idle", "0.5")
        [would] = await command(*to_them, "--dry-run")
        [row] = would["notified"]
        assert (row["height"], row["new_entries"], row["new_payloads"]) == (50, 50, 50)
        assert (row["bytes"], row["payloads_of_unknown_size"], would["entries"]) == (0, 50, 0)
        [sized] = await command(*to_them, "--dry-run", "--sizes")
        [row] = sized["notified"]
        assert (row["new_entries"], row["new_payloads"], row["bytes"]) == (50, 50, 50 * 20)
        assert row["payloads_of_unknown_size"] == 0
        *looks, came = await command(*to_them, "--progress")
        assert came["payloads"] == 50 and came["error"] is None
        assert looks[-1]["payloads"] == 50 and looks[-1]["payloads_to_come"] == 0
        assert all(look["payloads"] + look["payloads_to_come"] in (0, 50) for look in looks)
    [coverage] = await command("status", "--dir", theirs)
    assert coverage["entries"] == coverage["payloads"] == [[1, 50]]


async def test_a_sparse_reader_proves_one_entry_with_exactly_its_pool(tmp_path: Path) -> None:
    theirs, seq_num = str(tmp_path / "theirs"), 7_777
    async with serving(filled(tmp_path / "mine", LONG)) as served:
        selection = ("--log", NAME, "--first", str(seq_num), "--last", str(seq_num))
        [came] = await command("sync", served.url, "--dir", theirs, *selection, "--idle", "1")
        pool = {number for number in (*lower_pool(seq_num), *upper_pool(seq_num)) if number <= LONG}
        assert (came["entries"], came["payloads"]) == (len(pool), 1)
        [proof] = await command("verify", str(seq_num), "--dir", theirs, "--log", NAME)
        assert proof["proven"] and set(proof["pool"]) == pool
        newest = ("--log", NAME, "--sparse", "--first", str(seq_num), "--idle", "2")
        [came] = await command("sync", served.url, "--dir", theirs, *newest)
        [proof] = await command("verify", str(LONG), "--dir", theirs, "--log", NAME)
        assert proof["proven"] and came["entries"] < 60


async def test_what_is_published_beside_a_process_that_serves_comes_live(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    [first] = await command("publish", "first", "--dir", str(mine))
    log = first["log"]
    async with (
        serving(mine) as server,
        serving(theirs, "--dial", server.url, "--log", log) as other,
    ):
        assert (await other.next_event("payload"))["seq_num"] == 1
        await command("publish", "second", "--dir", str(mine))
        assert (await other.next_event("payload"))["seq_num"] == 2
        await command("pause", "--dir", str(mine), "--log", log)
        await other.next_event("cancelled")
        [listed] = await command("pause", "--dir", str(mine))
        assert listed == {"paused": log}
        await command("resume", "--dir", str(mine), "--log", log)


async def test_what_comes_live_is_printed_as_it_comes_and_who_leaves_is_named(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    [first] = await command("publish", "first", "--dir", str(mine))
    live = ("--log", first["log"], "--dir", str(theirs), "--flavour", "yamf", "--live")
    async with serving(mine) as server:
        async with running("sync", server.url, *live) as other:
            assert (await other.next_event("entry"))["seq_num"] == 1
            await command("publish", "second", "--dir", str(mine))
            assert [(await other.next_event(kind))["seq_num"] for kind in ("entry", "payload")] == [2, 2]
        assert (await server.next_event("ended"))["remote"]


async def test_a_request_that_the_peer_refuses_is_told_with_a_remedy(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    [first] = await command("publish", "first", "--dir", str(mine))
    await command("publish", "other", "--dir", str(theirs))
    async with serving(theirs) as server:
        [came] = await command("sync", server.url, "--dir", str(mine), "--log", first["log"], status=3)
        assert came["cancelled"] == {"refused": 1}


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
async def test_another_source_takes_over_from_one_that_dies_or_stands_still(
    tmp_path: Path, stop: signal.Signals
) -> None:
    filled(tmp_path / "one", 30, size=50_000)
    filled(tmp_path / "two", 40, size=50_000)
    theirs = tmp_path / "theirs"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        later = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    async with serving(tmp_path / "one") as server:
        sources = ("--dial", server.url, "--dial", later, "--log", NAME, "--progress-timeout", "1")
        async with serving(theirs, *sources, "--flavour", "yamf") as reader:
            await reader.next_event("payload")
            async with serving(tmp_path / "two", url=later) as two:
                await two.next_event("proposed")
                server.process.send_signal(stop)
                while (await reader.next_event("payload"))["seq_num"] < 40:
                    pass
    store = FolderStore(theirs)
    assert store.payloads(LOG).covers(1, 41)
    store.close()


async def test_a_forbidden_log_cannot_be_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    mine = filled(tmp_path / "mine", 3, log_ids=(0, 1))
    (mine / "policy.toml").write_text(f'[default]\nread = ["{KEY}/0"]\nwrite = []\n')
    [row, _] = await command("policy", "--dir", str(mine))
    assert row["read"] == [NAME]
    theirs = str(tmp_path / "theirs")
    passed: list[tuple[bytes, ...]] = []
    async with serving(mine) as served:
        for name in (f"{KEY}/1", f"{KEY}/2"):
            trace = tmp_path / f"trace-{name[-1]}"
            seen = ("--trace", str(trace), "--idle", "0.3")
            [outcome] = await command("sync", served.url, "--dir", theirs, "--log", name, *seen, status=3)
            assert outcome["cancelled"] == {"refused": 1} and outcome["entries"] == 0
            passed.append(
                tuple((trace / f"{direction}-received").read_bytes() for direction in ("control", "data"))
            )
        [outcome] = await command("sync", served.url, "--dir", theirs, "--log", NAME, "--idle", "0.3")
        assert outcome["entries"] == 3
        (mine / "policy.toml").write_text("[default]\nwrite = []\n")
        await served.next_event("policy")
        [outcome] = await command("sync", served.url, "--dir", theirs, "--log", f"{KEY}/1", "--idle", "0.3")
        assert outcome["entries"] == 3
    assert passed[0] == passed[1]


async def test_rules_that_are_none_are_told_with_their_place(tmp_path: Path) -> None:
    mine = filled(tmp_path / "mine", 1)
    (mine / "policy.toml").write_text("[default]\nreads = []\n")
    assert await command("policy", "--dir", str(mine), status=1) == []


CULM = (sys.executable, "-c", "from culm_infra.cli import main; main()", "bamboo")
DYING = """
import asyncio, os, pathlib, signal, sys
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.tls_files import TlsFiles
from culm_connectors.url import parse_url
from culm_models.bamboo.hashes import YAMF

folder, url, ca, name, key, limit = sys.argv[1:]
came = 0

def trace(channel, data):
    global came
    came += len(data) if channel == "data <" else 0
    if came > int(limit):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    settings = BambooPeerSettings(tls=TlsFiles(ca=pathlib.Path(ca), server_name=name))
    async with BambooPeer.open(pathlib.Path(folder), flavour=YAMF, settings=settings) as peer:
        await peer.follow(FollowedLog((bytes.fromhex(key), 0)))
        async with peer.connect(parse_url(url), trace=trace) as remote:
            await remote.ended.wait()

asyncio.run(main())
"""


@asynccontextmanager
async def served(folder: Path, scheme: str, files: Certificates) -> AsyncIterator[str]:
    """A process that serves a folder: its address."""
    certificate = (
        *("--tls-certificate", str(files.server.certificate)),
        *("--tls-key", str(files.server.private_key)),
    )
    process = await asyncio.create_subprocess_exec(
        *CULM,
        "serve",
        f"{scheme}://127.0.0.1:0",
        *("--dir", str(folder), "--json"),
        *(certificate if scheme == "tls" else ()),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        event = json.loads(await process.stdout.readline())
        assert event["event"] == "listening"
        draining = asyncio.create_task(process.stdout.read())
        yield event["url"]
        process.send_signal(signal.SIGINT)
        await draining
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(("scheme", "size"), [("tcp", 50_000_000), ("tls", 8_000_000), ("quic", 8_000_000)])
async def test_a_large_payload_goes_on_where_a_kill_stopped_it(
    tmp_path: Path, scheme: str, size: int
) -> None:
    payload = random.Random(1).randbytes(size)
    store = FolderStore(tmp_path / "one", YAMF)
    with store.exclusively():
        publish(store, AUTHOR, 0, payload)
        publish(store, AUTHOR, 0, b"after it")
    store.close()
    files = Certificates(tmp_path)
    ca, server_name = str(files.client.ca), str(files.client.server_name)
    other = tmp_path / "other"
    async with served(tmp_path / "one", scheme, files) as url:
        dying = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DYING, str(other), url, ca, server_name, LOG[0].hex(), str(size // 2)
        )
        assert await dying.wait() == -signal.SIGKILL
        left = FolderStore(other)
        offset = left.unverified(LOG, 1).end_of_run(0)
        assert size // 2 - 1_000_000 < offset < size and not left.has_payload(LOG, 1)
        left.close()
        sync = await asyncio.create_subprocess_exec(
            *CULM,
            *("sync", url, "--dir", str(other), "--log", NAME, "--idle", "1", "--json"),
            *(("--tls-ca", ca, "--tls-name", server_name) if scheme == "tls" else ()),
            stdout=subprocess.PIPE,
        )
        output, _ = await sync.communicate()
        event = json.loads(output)
        assert sync.returncode == 0 and event["error"] is None
        assert event["received_bytes"] < size - offset + 10_000
    whole = FolderStore(other)
    assert whole.read_payload(LOG, 1, 0, size) == payload and whole.has_payload(LOG, 1)
    assert whole.read_payload(LOG, 2, 0, 100) == b"after it" and whole.has_payload(LOG, 2)
    whole.close()
