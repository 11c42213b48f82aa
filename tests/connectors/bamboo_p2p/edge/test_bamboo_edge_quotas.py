"""How much a principal may bring to an edge, and which evidence of forks and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.edge.hooks import peer_id
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.transport import Identity
from culm_connectors.url import Scheme, Url
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import ForkError
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.errors import EvidenceBogus
from culm_models.bamboo_p2p.events import RequestCancelled
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import HeldEntry
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.data import encode_data, encode_metadata
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode, RawPayload, Switch
from culm_models.bymux import CONTROL, DATA
from culm_models.keys import KeyPair
from culm_topics.records import RejectedRecord
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG, make_log
from tests.models.bamboo_p2p.test_bamboo_p2p_reactions import ENTRIES, other_branch
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import OTHER_LOG, PROOF, VIOLATIONS
from tests.support.bamboo.brokerless import BrokerlessEdge, brokerless_edge
from tests.support.bamboo.edge import until_held
from tests.support.bamboo.hand_made import be_called_and_break, call_and_break
from tests.support.hostile.bamboo import hostile_channels, open_proposal
from tests.support.process.waiting import ended, until, while_working

WRITER = KeyPair.generate(b"author of too much")
FIRST, FURTHER, LAST, OF_ANOTHER = ((WRITER.public_key, number) for number in range(4))
HERE = Url("quic", "127.0.0.1", 0)


def pushing(log: LogKey) -> FollowedLog:
    return FollowedLog(log, direction=Direction.PUSH)


def over_quota(edge: BrokerlessEdge) -> int:
    return edge.flavour.peer.enforcement.over_quota


async def test_of_a_principal_no_more_is_taken_than_its_quota_and_others_bring_on(tmp_path: Path) -> None:
    async with (
        brokerless_edge(tmp_path / "edge", quota_bytes=250, quota_period_s=1e9) as edge,
        edge.flavour.peer.listen(HERE) as url,
        BambooPeer.open(tmp_path / "one", flavour=YAMF) as limited,
        BambooPeer.open(
            tmp_path / "other", flavour=YAMF, identity=Identity.from_private_key(b"o" * 32)
        ) as other,
    ):
        codes: list[CancelCode] = []
        limited.listeners.append(
            lambda _, event: codes.append(event.code) if isinstance(event, RequestCancelled) else None
        )
        for log_id in (0, 1):
            await limited.publish(WRITER, log_id, bytes(100))
        async with limited.connect(url) as remote, other.connect(url) as others:
            await limited.ask(remote, pushing(FIRST))
            await limited.ask(remote, pushing(FURTHER))
            await until_held(edge.flavour.peer, FURTHER, 1)
            await until_held(edge.flavour.peer, FIRST, 1)
            # The quota is reached in the midst of a live request, and both end for it.
            await limited.publish(WRITER, 0, bytes(100))
            await until(lambda: len(codes) == 2)
            assert codes == [CancelCode.RESOURCES] * 2
            await limited.publish(WRITER, 0, bytes(100))
            await limited.publish(WRITER, 2, bytes(100))
            await limited.ask(remote, pushing(LAST))
            await until(lambda: len(codes) == 3)
            assert codes[2] is CancelCode.RESOURCES and over_quota(edge) == 3
            await other.publish(WRITER, 3, bytes(100))
            await other.ask(others, pushing(OF_ANOTHER))
            await until_held(edge.flavour.peer, OF_ANOTHER, 1)
        peer, logs = edge.flavour.peer, (FIRST, FURTHER, LAST)
        assert await peer.read(lambda store: [store.highest_entry(log) for log in logs]) == [2, 1, 0]


def data_of(first: int, last: int) -> bytes:
    """Entries without payloads, as whoever sends them whole says them."""
    stream = encode_data(Switch(0))
    for log_entry in make_log(20, payload=lambda _: b"", log_id=0)[first - 1 : last]:
        entry = decode_entry(log_entry.entry_bytes, YAMF)
        held_entry = HeldEntry(entry, log_entry.entry_bytes, YAMF.hash(log_entry.entry_bytes))
        stream += encode_metadata(held_entry, with_backlink=False) + encode_data(RawPayload(0))
    return stream


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
        await channels.write(CONTROL, open_proposal(0, AUTHOR))
        async with while_working():
            while not await peer.read(lambda _: remote.session.connection.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        if is_cancelled:
            # It may go on until it says that this was all: it never does.
            await channels.write(CONTROL, encode_control(Cancel(0, CancelCode.DONE)))
        await channels.write(DATA, data_of(1, 10))
        await until_held(peer, (AUTHOR.public_key, 0), 10)
        await channels.write(DATA, data_of(11, 20))
        # What breaks a rule stands behind it: when that is read, so is all before.
        await channels.write(DATA, b"\x01")
        await ended(remote.ended.wait())
        assert getattr(remote.session.error, "code", None) == "bamboo_p2p.malformed"
        assert await peer.read(lambda store: store.highest_entry((AUTHOR.public_key, 0))) == 10


STRANGER = KeyPair.generate(b"a stranger with evidence")

ONE, TWO = ENTRIES[0].entry_bytes, ENTRIES[1].entry_bytes
UNSIGNED = other_branch(1)[:-1] + b"\x00"


def claimed(*entries: bytes) -> Callable[[], HandMade]:
    """A proposal, and that its log is forked."""

    def make() -> HandMade:
        return HandMade().control(proposal(), Cancel(0, CancelCode.FORKED, entries=entries))

    return make


BOGUS: dict[str, tuple[Callable[[], HandMade], tuple[bytes, ...]]] = {
    "135, and the two prove no fork": (claimed(ONE, TWO), (ONE, TWO)),
    "135, and one of them is of another log": (claimed(ONE, OTHER_LOG), (ONE, OTHER_LOG)),
    "135, and one of them is not signed": (claimed(ONE, UNSIGNED), (ONE, UNSIGNED)),
    "135, and both are one": (claimed(ONE, ONE), (ONE, ONE)),
    "134, behind the start": (VIOLATIONS["an end of log behind the start"][1], ()),
    "133, where none was expected": (VIOLATIONS["a hash mismatch where none was expected"][1], (ONE,)),
}


async def rejected(edge: BrokerlessEdge) -> RejectedRecord:
    (value,) = await edge.topics.until("rejected", 1)
    return RejectedRecord.decode(value)


@pytest.mark.parametrize("scheme", ["tcp", "quic"])
@pytest.mark.parametrize("name", BOGUS)
async def test_evidence_that_proves_nothing_ends_the_connection_and_stands_on_rejected(
    tmp_path: Path, name: str, scheme: Scheme
) -> None:
    make, evidence = BOGUS[name]
    made = make()
    async with while_working(), brokerless_edge(tmp_path / "edge") as edge:
        meet = be_called_and_break if made.is_proactive else call_and_break
        identity = Identity.from_private_key(STRANGER.private_key)
        error, reason = await meet(made, edge.flavour.peer, Url(scheme, "127.0.0.1", 0), identity)
        record = await rejected(edge)
        assert await edge.flavour.peer.read(lambda store: store.fork_proof(LOG)) is None
    assert isinstance(error, EvidenceBogus)
    if scheme == "quic":
        assert reason is not None and (reason.code, reason.text) == (0x0D, EvidenceBogus.code)
        assert record.brought_by == STRANGER.public_key
    else:
        assert record.brought_by == peer_id("address:127.0.0.1")
    evidence_kept = tuple(entry for entry in (record.first, record.entry) if entry is not None)
    assert (record.code, evidence_kept) == (EvidenceBogus.code, evidence)


async def answers_to(reader: BambooPeer, url: Url) -> CancelCode:
    """What is said to somebody who asks for the log."""
    codes: list[CancelCode] = []
    reader.listeners.append(
        lambda _, event: codes.append(event.code) if isinstance(event, RequestCancelled) else None
    )
    async with reader.connect(url) as remote:
        await reader.ask(remote, FollowedLog(LOG))
        await until(lambda: bool(codes))
        assert remote.session.error is None
    return codes[0]


async def test_a_real_proof_is_kept_told_on_rejected_and_given_to_whoever_asks(tmp_path: Path) -> None:
    async with (
        brokerless_edge(tmp_path / "edge") as edge,
        edge.flavour.peer.listen(Url("quic", "127.0.0.1", 0)) as url,
        BambooPeer.open(tmp_path / "reader", flavour=YAMF) as reader,
    ):
        address = (url.host, url.port)
        async with hostile_channels(address, private_key=STRANGER.private_key) as channels:
            await channels.write(CONTROL, encode_control(proposal()) + encode_control(PROOF))
            record = await rejected(edge)
        assert (record.code, record.brought_by) == (ForkError.code, STRANGER.public_key)
        assert (record.first, record.entry) == PROOF.entries
        assert await edge.flavour.peer.read(lambda store: store.fork_proof(LOG)) == PROOF.entries
        assert await answers_to(reader, url) is CancelCode.FORKED
        # The proof came with it, and is kept there in turn.
        assert await reader.read(lambda store: store.fork_proof(LOG)) == PROOF.entries
    # It is on the disk.
    async with (
        brokerless_edge(tmp_path / "edge") as edge,
        edge.flavour.peer.listen(Url("tcp", "127.0.0.1", 0)) as url,
        BambooPeer.open(tmp_path / "later", flavour=YAMF) as later,
    ):
        assert await answers_to(later, url) is CancelCode.FORKED


async def test_what_an_edge_is_told_with_133_is_kept_with_its_own_entry_as_the_proof(tmp_path: Path) -> None:
    identity = Identity.from_private_key(STRANGER.private_key)
    async with (
        brokerless_edge(tmp_path / "edge") as edge,
        BambooPeer.open(tmp_path / "source", flavour=YAMF, identity=identity) as source,
        BambooPeer.open(tmp_path / "reader", flavour=YAMF) as reader,
        edge.flavour.peer.listen(Url("tcp", "127.0.0.1", 0)) as url,
        source.listen(Url("quic", "127.0.0.1", 0)) as bound,
    ):
        for number in range(13):
            await source.publish(AUTHOR, LOG[1], b"another branch %d" % number)
        await edge.flavour.peer.add(list(ENTRIES[:12]))
        # Of the pool of entry 13 that one alone is lacking here: the hash of entry 4 is expected.
        async with edge.flavour.peer.connect(bound) as remote:
            await edge.flavour.peer.ask(remote, FollowedLog(LOG))
            record = await rejected(edge)
        theirs = await source.read(lambda store: store.entry(LOG, 4))
        assert theirs is not None
        proof = (ENTRIES[3].entry_bytes, theirs.entry_bytes)
        assert (record.code, record.brought_by) == (ForkError.code, STRANGER.public_key)
        assert (record.first, record.entry, record.seq_num) == (*proof, 4)
        assert await answers_to(reader, url) is CancelCode.FORKED
        assert await reader.read(lambda store: store.fork_proof(LOG)) == proof
