"""How much a principal may bring to an edge: what goes beyond is not kept, whatever the other end does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.transport import Identity
from culm_connectors.transport.url import Url
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import RequestCancelled
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, RawPayload, Switch
from culm_models.bymux.endpoint import CONTROL, DATA
from culm_models.keys import KeyPair
from tests.models.bamboo_p2p.logs import AUTHOR as WRITER
from tests.models.bamboo_p2p.logs import make_log
from tests.support.bamboo_edge import until_held
from tests.support.brokerless_bamboo import BrokerlessEdge, brokerless_edge
from tests.support.hostile_bamboo import hostile_channels, open_proposal
from tests.support.waiting import ended, until, while_working

AUTHOR = KeyPair.generate(b"author of too much")
LOG, FURTHER, LAST, OF_ANOTHER = ((AUTHOR.public_key, number) for number in range(4))
HERE = Url("quic", "127.0.0.1", 0)


def pushing(log: LogKey) -> FollowedLog:
    return FollowedLog(log, direction=Direction.PUSH)


def over_quota(edge: BrokerlessEdge) -> int:
    return edge.flavour.peer.enforcement.over_quota


async def test_of_a_principal_no_more_is_taken_than_its_quota_and_others_bring_on(tmp_path: Path) -> None:
    async with (
        brokerless_edge(tmp_path / "edge", quota_bytes=250, quota_period_s=1e9) as edge,
        edge.flavour.peer.listen(HERE) as url,
        BambooPeer.open(tmp_path / "one", flavour=YAMF) as one,
        BambooPeer.open(
            tmp_path / "other", flavour=YAMF, identity=Identity.from_private_key(b"o" * 32)
        ) as other,
    ):
        codes: list[CancelCode] = []
        one.listeners.append(
            lambda _, event: codes.append(event.code) if isinstance(event, RequestCancelled) else None
        )
        for log_id in (0, 1):
            await one.publish(AUTHOR, log_id, bytes(100))
        async with one.connect(url) as remote, other.connect(url) as others:
            await one.ask(remote, pushing(LOG))
            await one.ask(remote, pushing(FURTHER))
            await until_held(edge.flavour.peer, FURTHER, 1)
            await until_held(edge.flavour.peer, LOG, 1)
            # The quota is reached in the midst of a live request, and both end for it.
            await one.publish(AUTHOR, 0, bytes(100))
            await until(lambda: len(codes) == 2)
            assert codes == [CancelCode.RESOURCES] * 2
            await one.publish(AUTHOR, 0, bytes(100))
            await one.publish(AUTHOR, 2, bytes(100))
            await one.ask(remote, pushing(LAST))
            await until(lambda: len(codes) == 3)
            assert codes[2] is CancelCode.RESOURCES and over_quota(edge) == 3
            await other.publish(AUTHOR, 3, bytes(100))
            await other.ask(others, pushing(OF_ANOTHER))
            await until_held(edge.flavour.peer, OF_ANOTHER, 1)
        peer, logs = edge.flavour.peer, (LOG, FURTHER, LAST)
        assert await peer.read(lambda store: [store.highest_entry(log) for log in logs]) == [2, 1, 0]


def data_of(first: int, last: int) -> bytes:
    """Entries without payloads, as whoever sends them whole says them."""
    said = encode_data(Switch(0))
    for given in make_log(20, payload=lambda _: b"", log_id=0)[first - 1 : last]:
        entry = decode_entry(given.entry_bytes, YAMF)
        held = HeldEntry(entry, given.entry_bytes, YAMF.hash(given.entry_bytes))
        said += encode_metadata(held, with_backlink=False) + encode_data(RawPayload(0))
    return said


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_who_does_not_heed_the_end_of_a_request_fills_nothing(
    tmp_path: Path, is_cancelled: bool
) -> None:
    async with (
        brokerless_edge(tmp_path / "edge", quota_entries=8) as edge,
        edge.flavour.peer.listen(HERE) as url,
        hostile_channels((url.host, url.port)) as channels,
    ):
        peer = edge.flavour.peer
        await until(lambda: bool(peer.remotes))
        (remote,) = peer.remotes.values()
        await channels.write(CONTROL, open_proposal(0, WRITER))
        async with while_working():
            while not await peer.read(lambda _: remote.session.connection.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if is_cancelled:
            # It may go on until it says that this was all: it never does.
            await channels.write(CONTROL, encode_control(Cancel(0, CancelCode.DONE)))
        await channels.write(DATA, data_of(1, 10))
        await until_held(peer, (WRITER.public_key, 0), 10)
        await channels.write(DATA, data_of(11, 20))
        # What breaks a rule stands behind it: when that is read, so is all before.
        await channels.write(DATA, b"\x01")
        await ended(remote.ended.wait())
        assert getattr(remote.session.error, "code", None) == "bamboo_p2p.malformed"
        assert await peer.read(lambda store: store.highest_entry((WRITER.public_key, 0))) == 10
