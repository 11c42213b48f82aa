"""Bamboo Point-2-Point with a second implementation, in Go, written from documents and vectors.

Who calls is the proactive end: `pull` and `sync` call, `serve` is called.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from culm_models.bamboo.certificate_pool import lower_pool, shortest_path, upper_pool
from tests.interop.go_bamboo import CULM, Between, build, culm, culm_serving, go_serving, held, running
from tests.support.process.waiting import while_working

VECTORS = Path(__file__).parents[1] / "vectors" / "bamboo_p2p"
MB = 1 << 20
FLAVOURS = pytest.mark.parametrize("flavour", ["yamf", "yasmf"])


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("go-bamboo"))


async def publish(folder: Path, *texts: str | Path) -> tuple[str, list[str]]:
    """The name of a log of Culm's, and the hashes of what was published."""
    lines = await culm("publish", "--dir", folder, *texts)
    return lines[0]["log"], [line["hash"] for line in lines]


async def test_the_published_vectors_hold_in_go(program: Path) -> None:
    async with running(program, "vectors", VECTORS) as go:
        assert await go.ended() == 0, go.lines
        assert len(go.lines) == len(list(VECTORS.glob("*.json")))


@FLAVOURS
async def test_culm_calls_and_has_a_whole_log_of_go(tmp_path: Path, program: Path, flavour: str) -> None:
    async with go_serving(program, "-flavour", flavour, "-log", "one/3:300:400") as (_, port, log):
        wanted = ("--dir", tmp_path, "--flavour", flavour, "--log", log, "--last", "300")
        await culm("sync", f"tcp://127.0.0.1:{port}", *wanted)
        everything = list(range(1, 301))
        assert await held(tmp_path) == (everything, everything)
        [proof] = await culm("verify", "300", "--dir", tmp_path, "--log", log)
        assert proof["proven"] and proof["payload"]


@FLAVOURS
async def test_go_calls_and_has_a_whole_log_of_culm(tmp_path: Path, program: Path, flavour: str) -> None:
    texts = (f"text {number}" for number in range(60))
    log, hashes = await publish(tmp_path, "--flavour", flavour, *texts)
    async with (
        culm_serving(tmp_path) as (_, port),
        running(program, "pull", f"127.0.0.1:{port}", "-flavour", flavour, "-to", "60", log) as go,
    ):
        assert await go.ended() == 0
        assert [line["hash"] for line in go.said("entry")] == hashes
        assert go.numbers("payload") == list(range(1, 61))


@FLAVOURS
async def test_go_calls_and_offers_a_whole_log(tmp_path: Path, program: Path, flavour: str) -> None:
    async with culm_serving(tmp_path, "--flavour", flavour) as (server, port):
        made = ("-flavour", flavour, "-log", "offered/0:40:100", "-direction", "push")
        async with go_serving(program, "-log", "offered/0:1") as (_, _, log):
            pass
        async with running(program, "pull", f"127.0.0.1:{port}", *made, log) as go:
            assert await go.ended() == 0, go.lines
        await server.until_said("payload", seq_num=40)
    everything = list(range(1, 41))
    assert await held(tmp_path) == (everything, everything)


@FLAVOURS
async def test_culm_has_one_entry_and_exactly_what_proves_it(
    tmp_path: Path, program: Path, flavour: str
) -> None:
    async with go_serving(program, "-flavour", flavour, "-log", "one/3:130:10") as (_, port, log):
        wanted = ("--flavour", flavour, "--log", log, "--first", "100", "--last", "100")
        await culm("sync", f"tcp://127.0.0.1:{port}", "--dir", tmp_path, *wanted)
        pool = sorted({*lower_pool(100), *upper_pool(100)})
        assert await held(tmp_path) == (pool, [100])
        await culm("verify", "100", "--dir", tmp_path, "--log", log)


@FLAVOURS
async def test_go_has_a_sparse_range_and_exactly_what_proves_it(
    tmp_path: Path, program: Path, flavour: str
) -> None:
    log, hashes = await publish(tmp_path, "--flavour", flavour, *(f"text {number}" for number in range(50)))
    async with culm_serving(tmp_path) as (_, port):
        kept = ("-dir", tmp_path / "go", "-flavour", flavour)
        wanted = ("-sparse", "-proof", "-from", "20", "-to", "33", log)
        async with running(program, "pull", f"127.0.0.1:{port}", *kept, *wanted) as go:
            assert await go.ended() == 0
            path = shortest_path(20, 33)
            assert go.numbers("payload") == list(path)
            assert go.numbers("entry") == sorted({*lower_pool(20), *path, *upper_pool(33)})
            assert all(line["hash"] == hashes[line["seq_num"] - 1] for line in go.said("entry"))
        # What was a part becomes whole by what was missing alone.
        async with running(program, "pull", f"127.0.0.1:{port}", *kept, "-to", "50", log) as go:
            assert await go.ended() == 0
            assert go.numbers("payload") == sorted(set(range(1, 51)) - set(path))


async def test_culm_has_a_large_payload_and_goes_on_where_the_connection_broke(
    tmp_path: Path, program: Path
) -> None:
    async with go_serving(program, "-log", f"large/0:2:{4 * MB}") as (_, port, log):
        between = Between(port)
        between.cut_after = 2 * MB
        async with between.listening() as through:
            wanted = ("--dir", tmp_path, "--log", log, "--last", "2")
            await culm("sync", f"tcp://127.0.0.1:{through}", *wanted, status=1)
            between.passed, between.cut_after = 0, None
            await culm("sync", f"tcp://127.0.0.1:{through}", *wanted)
        assert await held(tmp_path) == ([1, 2], [1, 2])
        assert between.passed < 7 * MB


async def test_go_has_a_large_payload_and_goes_on_where_the_connection_broke(
    tmp_path: Path, program: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(4 * MB))
    log, _ = await publish(tmp_path / "culm", "--file", large, "--file", large)
    async with culm_serving(tmp_path / "culm") as (_, port):
        between = Between(port)
        between.cut_after = 2 * MB
        async with between.listening() as through:
            wanted = ("-dir", tmp_path / "go", "-to", "2", log)
            async with running(program, "pull", f"127.0.0.1:{through}", *wanted) as go:
                assert await go.ended() == 1
            between.passed, between.cut_after = 0, None
            async with running(program, "pull", f"127.0.0.1:{through}", *wanted) as go:
                assert await go.ended() == 0
                assert go.numbers("payload") == [1, 2]
        assert between.passed < 7 * MB


async def test_go_reads_what_culm_compresses(tmp_path: Path, program: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join(b"line %d of a text that repeats itself\n" % n for n in range(40_000)))
    log, _ = await publish(tmp_path / "culm", "--file", text)
    async with culm_serving(tmp_path / "culm") as (_, port):
        between = Between(port)
        async with (
            between.listening() as through,
            running(program, "pull", f"127.0.0.1:{through}", "-to", "1", log) as go,
        ):
            assert await go.ended() == 0
            assert go.numbers("payload") == [1]
        assert between.passed < text.stat().st_size / 2


async def test_the_end_that_was_called_proposes_too(tmp_path: Path, program: Path) -> None:
    """Over one connection each has a log of the other: even ids one way, odd ones the other."""
    of_culm, hashes = await publish(tmp_path, "a", "b", "c")
    async with go_serving(program, "-log", "one/0:20", of_culm) as (go, port, log):
        wanted = ("--dir", tmp_path, "--log", log, "--live", "--json")
        async with running(*CULM, "sync", f"tcp://127.0.0.1:{port}", *wanted):
            await go.until_said("payload", seq_num=3, id=1, log=of_culm)
            await go.until_said("accepted", id=0, log=log)
            assert [line["hash"] for line in go.said("entry", log=of_culm)] == hashes
            async with while_working():
                while await held(tmp_path, log) != ([*range(1, 21)], [*range(1, 21)]):
                    pass


async def test_culm_hears_of_what_go_publishes_meanwhile(tmp_path: Path, program: Path) -> None:
    async with go_serving(program, "-log", "live/0:3") as (go, port, log):
        wanted = ("--dir", tmp_path, "--log", log, "--live", "--json")
        sync = ("sync", f"tcp://127.0.0.1:{port}", *wanted)
        async with running(*CULM, *sync):
            await go.until_said("accepted")
            for number in range(4, 7):
                await go.type(f"line {number}")
            await go.until_said("published", 3)
            async with while_working():
                while await held(tmp_path) != ([*range(1, 7)], [*range(1, 7)]):
                    pass


async def test_go_hears_of_what_culm_publishes_meanwhile(tmp_path: Path, program: Path) -> None:
    log, _ = await publish(tmp_path, "a", "b")
    async with (
        culm_serving(tmp_path) as (_, port),
        running(program, "pull", f"127.0.0.1:{port}", "-live", log) as go,
    ):
        await go.until_said("payload", seq_num=2)
        _, [later] = await publish(tmp_path, "c")
        await go.until_said("payload", seq_num=3)
        assert go.said("entry", seq_num=3)[0]["hash"] == later


@FLAVOURS
async def test_an_end_that_holds_another_branch_refuses_with_its_entry(
    tmp_path: Path, program: Path, flavour: str
) -> None:
    """Both hold five entries of one number and one author, and neither is the other's."""
    made = ("-flavour", flavour, "-log", "forked/0:5:40")
    async with go_serving(program, "-flavour", flavour, "-log", "forked/0:5") as (_, port, log):
        wanted = ("--dir", tmp_path, "--flavour", flavour, "--log", log, "--last", "5")
        await culm("sync", f"tcp://127.0.0.1:{port}", *wanted)
    async with go_serving(program, *made) as (go, port, _):
        [printed] = await culm("sync", f"tcp://127.0.0.1:{port}", "--dir", tmp_path, "--log", log)
        assert printed["forks"] == 1
        await go.until_said("cancel", code=133)
    async with (
        culm_serving(tmp_path) as (_, port),
        running(program, "pull", f"127.0.0.1:{port}", *made, log) as go,
    ):
        assert await go.ended() == 4
        # It has a proof by now, and that goes before the hash.
        await go.until_said("cancelled", code=135)


@FLAVOURS
async def test_over_quic_the_alpn_names_the_flavour_and_both_have_what_the_other_had(
    tmp_path: Path, program: Path, flavour: str
) -> None:
    """Go calls, then Culm: `bamboo-p2p/2019-10`, with `+yasmf` for the hashes of BLAKE3."""
    log, hashes = await publish(tmp_path, "--flavour", flavour, *(f"text {number}" for number in range(60)))
    async with (
        culm_serving(tmp_path, scheme="quic://") as (_, port),
        running(program, "pull", f"quic://127.0.0.1:{port}", "-flavour", flavour, "-to", "60", log) as go,
    ):
        assert await go.ended() == 0, go.lines
        assert [line["hash"] for line in go.said("entry")] == hashes
        assert go.numbers("payload") == list(range(1, 61))
    made = ("-flavour", flavour, "-log", f"large/0:3:{4 * MB}")
    async with go_serving(program, *made, scheme="quic://") as (_, port, log):
        wanted = ("--dir", tmp_path, "--log", log, "--last", "3")
        await culm("sync", f"quic://127.0.0.1:{port}", *wanted)
    assert await held(tmp_path, log) == ([1, 2, 3], [1, 2, 3])


async def test_over_quic_ends_of_two_flavours_do_not_come_together(tmp_path: Path, program: Path) -> None:
    log, _ = await publish(tmp_path, "--flavour", "yasmf", "a")
    async with (
        culm_serving(tmp_path, scheme="quic://") as (_, port),
        running(program, "pull", f"quic://127.0.0.1:{port}", log) as go,
    ):
        assert await go.ended() == 1
        assert "0x178" in go.said("closed")[0]["why"], "TLS: no application protocol in common"
    async with go_serving(program, "-log", "one/0:2", scheme="quic://") as (_, port, of_go):
        wanted = ("--dir", tmp_path, "--log", of_go)
        assert await culm("sync", f"quic://127.0.0.1:{port}", *wanted, status=1) == []


async def test_over_quic_a_fork_is_found_and_proven_too(tmp_path: Path, program: Path) -> None:
    async with go_serving(program, "-log", "forked/0:5") as (_, port, log):
        await culm("sync", f"tcp://127.0.0.1:{port}", "--dir", tmp_path, "--log", log, "--last", "5")
    async with (
        culm_serving(tmp_path, scheme="quic://") as (_, port),
        running(program, "pull", f"quic://127.0.0.1:{port}", "-log", "forked/0:5:40", log) as go,
    ):
        assert await go.ended() == 4
        assert go.said("fork")


async def test_ends_of_two_flavours_do_not_take_each_others_hashes(tmp_path: Path, program: Path) -> None:
    """Nothing on the wire names the flavour: the first hash of the other one is malformed."""
    log, _ = await publish(tmp_path, "--flavour", "yasmf", "a", "b")
    async with (
        culm_serving(tmp_path) as (_, port),
        running(program, "pull", f"127.0.0.1:{port}", log) as go,
    ):
        assert await go.ended() == 1
        assert go.said("dropped")[0]["number"] == 0x01
    async with go_serving(program, "-log", "one/0:2") as (_, port, of_go):
        wanted = ("--dir", tmp_path, "--log", of_go)
        [printed] = await culm("sync", f"tcp://127.0.0.1:{port}", *wanted, status=1)
    assert "bamboo_p2p.malformed" in str(printed)


async def test_go_learns_that_a_log_ended_before_what_it_asked_for(tmp_path: Path, program: Path) -> None:
    log, hashes = await publish(tmp_path, "a", "b", "c", "--end")
    async with (
        culm_serving(tmp_path) as (_, port),
        running(program, "pull", f"127.0.0.1:{port}", "-from", "9", log) as go,
    ):
        assert await go.ended() == 0
        assert go.said("cancelled", code=134)[0]["seq_num"] == 3
        assert go.said("entry", seq_num=3)[0]["hash"] == hashes[2]


async def test_go_tells_of_a_payload_that_is_not_what_was_signed(tmp_path: Path, program: Path) -> None:
    log, _ = await publish(tmp_path, "good", "an innocent payload")
    async with culm_serving(tmp_path) as (_, port):
        between = Between(port)
        between.spoil = (b"innocent", b"wronging")
        async with (
            between.listening() as through,
            running(program, "pull", f"127.0.0.1:{through}", log) as go,
        ):
            assert await go.ended() == 1
            assert go.said("dropped")[0]["number"] == 0x0C
            assert go.numbers("payload") == [1]


async def test_culm_tells_of_a_payload_that_is_not_what_was_signed(tmp_path: Path, program: Path) -> None:
    async with go_serving(program, "-log", "innocent/0:2") as (_, port, log):
        between = Between(port)
        between.spoil = (b"innocent 2", b"wronging 2")
        async with between.listening() as through:
            wanted = ("--dir", tmp_path, "--log", log)
            [printed] = await culm("sync", f"tcp://127.0.0.1:{through}", *wanted, status=1)
        assert "bamboo_p2p.invalid_data" in str(printed)
    assert await held(tmp_path) == ([1, 2], [1])
