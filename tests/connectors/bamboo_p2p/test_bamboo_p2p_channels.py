"""The rules of a connection hold over every channel: QUIC's two streams, and bymux over TCP and TLS."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.channels.two_streams import open_streams
from culm_connectors.bamboo_p2p.errors import FolderInUse
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.proof import prove
from culm_connectors.bamboo_p2p.remote_peer import PeerHooks
from culm_connectors.bamboo_p2p.settings import ALPNS, BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.transport import CloseReason, ConnectError, Connection, TransportSettings
from culm_connectors.transport.quic import connect
from culm_connectors.url import Url
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.errors import Malformed
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.settings import BambooSettings, Direction
from culm_models.bymux import CONTROL
from culm_models.keys import KeyPair
from tests.support.bamboo.waiting import until_stored
from tests.support.connectors.channels import Certificates
from tests.support.process.waiting import ended

AUTHOR = KeyPair.generate(b"author of a log of a folder")
LOG = (AUTHOR.public_key, 3)
DEADLINE_S = 60.0


@pytest.fixture(params=["tcp", "tls", "quic"])
def url(request: pytest.FixtureRequest) -> Url:
    return Url(request.param, "127.0.0.1", 0)


@pytest.fixture
def settings(tmp_path: Path) -> BambooPeerSettings:
    files = Certificates(tmp_path)
    shown = files.server.model_copy(
        update={"server_name": files.client.server_name, "require_client_certificate": True}
    )
    return BambooPeerSettings(tls=shown, refresh_s=0.05)


async def test_a_log_comes_whole_and_what_is_published_later_follows_live(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as source,
        BambooPeer.open(tmp_path / "other", flavour=YAMF, settings=settings) as other,
        source.listen(url) as bound,
    ):
        for number in range(30):
            await source.publish(AUTHOR, LOG[1], b"payload %d " % number * number)
        await other.follow(FollowedLog(LOG))
        async with other.connect(bound):
            await until_stored(other, lambda store: store.payloads(LOG).covers(1, 31))
            await source.publish(AUTHOR, LOG[1], b"live", end_of_log=True)
            await until_stored(other, lambda store: store.has_payload(LOG, 31))
            assert await other.read(lambda store: store.end_of_log(LOG)) == 31
            assert await other.read(lambda store: store.read_payload(LOG, 31, 0, 10)) == b"live"


async def test_one_entry_comes_with_exactly_the_pool_that_proves_it(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YASMF, settings=settings) as source,
        BambooPeer.open(tmp_path / "other", flavour=YASMF, settings=settings) as other,
        source.listen(url) as bound,
    ):
        for number in range(60):
            await source.publish(AUTHOR, LOG[1], b"%d" % number)
        await other.follow(FollowedLog(LOG, 23, 23))
        async with other.connect(bound) as remote:
            await until_stored(other, lambda store: store.highest_entry(LOG) == 40)
            assert remote.session.error is None
        pool = {*lower_pool(23), *upper_pool(23)}
        assert await other.read(lambda store: set(store.held_between(LOG, 1, 60))) == pool
        proof = await other.read(lambda store: prove(store, LOG, 23))
        assert proof.is_proven and set(proof.pool) == pool and proof.has_payload


async def test_proposals_wait_for_credit_and_go_on_when_requests_are_freed(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    meagre = replace(settings, connection=BambooSettings(credit=1))
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=meagre) as source,
        BambooPeer.open(tmp_path / "other", flavour=YAMF, settings=settings) as other,
        source.listen(url) as bound,
    ):
        logs = [(AUTHOR.public_key, number) for number in range(5)]
        for _, log_id in logs:
            await source.publish(AUTHOR, log_id, b"first")
            await other.follow(FollowedLog((AUTHOR.public_key, log_id), 1, 1))
        async with other.connect(bound):
            await until_stored(other, lambda store: all(store.has_payload(log, 1) for log in logs))


async def test_data_goes_on_whenever_a_small_window_is_given_back(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    narrow = replace(
        settings,
        data_window_bytes=700,
        transport=TransportSettings(stream_receive_window_bytes=16_384, receive_window_bytes=65_536),
    )
    payload = random.Random(7).randbytes(300_000)
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as source,
        BambooPeer.open(tmp_path / "other", flavour=YAMF, settings=narrow) as other,
        source.listen(url) as bound,
    ):
        await source.publish(AUTHOR, LOG[1], payload)
        await other.follow(FollowedLog(LOG))
        async with other.connect(bound):
            await until_stored(other, lambda store: store.has_payload(LOG, 1))
        assert await other.read(lambda store: store.read_payload(LOG, 1, 0, 10**6)) == payload


async def test_either_end_brings_what_the_other_lacks(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as source,
        BambooPeer.open(tmp_path / "other", flavour=YAMF, settings=settings) as other,
        source.listen(url) as bound,
    ):
        await other.publish(AUTHOR, LOG[1], b"pushed")
        await other.follow(FollowedLog(LOG, direction=Direction.BOTH))
        async with other.connect(bound):
            await until_stored(source, lambda store: store.has_payload(LOG, 1))


async def test_what_another_process_publishes_goes_out_too(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as source,
        BambooPeer.open(tmp_path / "other", flavour=YAMF, settings=settings) as other,
        source.listen(url) as bound,
    ):
        await source.publish(AUTHOR, LOG[1], b"here")
        await other.follow(FollowedLog(LOG))
        async with other.connect(bound):
            await until_stored(other, lambda store: store.has_payload(LOG, 1))
            beside = FolderStore(tmp_path / "one")
            with beside.exclusively():
                publish(beside, AUTHOR, LOG[1], b"beside")
            beside.close()
            await until_stored(other, lambda store: store.has_payload(LOG, 2))


async def test_a_second_peer_over_one_folder_is_refused(tmp_path: Path) -> None:
    async with BambooPeer.open(tmp_path / "one", flavour=YAMF):
        with pytest.raises(FolderInUse):
            async with BambooPeer.open(tmp_path / "one"):
                pass


async def test_over_quic_what_breaks_a_rule_is_told_by_its_code(
    tmp_path: Path, settings: BambooPeerSettings
) -> None:
    async def break_a_rule(connection: Connection) -> None:
        channels = await open_streams(connection)
        await channels.write(CONTROL, b"\x00\x00\x00" + bytes((136,)))

    async with (
        BambooPeer.open(tmp_path / "one", flavour=YAMF, settings=settings) as source,
        source.listen(Url("quic", "127.0.0.1", 0)) as bound,
    ):
        address, alpn = (bound.host, bound.port), ALPNS["yamf"]
        # The end may come before the connection counts as made, or after.
        try:
            connection = await connect(
                address, source.identity, None, settings.transport, alpn=alpn, speak_first=break_a_rule
            )
            reason: CloseReason | None = await ended(connection.wait_closed())
        except ConnectError as refused:
            reason = refused.reason
        assert (
            reason is not None
            and reason.application
            and reason.code == Malformed.number
            and reason.text == Malformed.code
        )


class ConnectionMeanwhile(PeerHooks):
    """In the thread that works on the logs, has the loop begin a further connection, once."""

    def __init__(self, begin: Callable[[], Coroutine[None, None, None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._begin = begin
        self.is_due = False

    def settled(
        self, changes_of: Sequence[tuple[str, Changes]], events_of: Mapping[str, Sequence[BambooP2pEvent]]
    ) -> None:
        if self.is_due:
            self.is_due = False
            asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result(DEADLINE_S)


async def test_a_connection_may_begin_while_a_step_of_another_one_is_settled(
    tmp_path: Path, url: Url, settings: BambooPeerSettings
) -> None:
    async with AsyncExitStack() as stack:
        store = FolderStore(tmp_path / "busy", YASMF)
        stack.callback(store.close)

        async def begin() -> None:
            await stack.enter_async_context(busy.connect(bound))

        hooks = ConnectionMeanwhile(begin)
        busy = await stack.enter_async_context(BambooPeer.over(store, settings=settings, hooks=hooks))
        other = await stack.enter_async_context(
            BambooPeer.open(tmp_path / "other", flavour=YASMF, settings=settings)
        )
        bound = await stack.enter_async_context(other.listen(url))
        hooks.is_due = True
        await busy.publish(AUTHOR, LOG[1], b"settled while another one calls")
        assert len(busy.remotes) == 1
        await busy.publish(AUTHOR, LOG[1], b"and behind it")
