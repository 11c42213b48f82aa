"""Evidence of forks and ends at an edge: bogus, it ends the connection; real, it is kept and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p.edge.hooks import peer_id
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.transport import Identity
from culm_connectors.transport.url import Scheme, Url
from culm_models.bamboo.errors import ForkError
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.errors import EvidenceBogus
from culm_models.bamboo_p2p.events import RequestCancelled
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode
from culm_models.bymux.endpoint import CONTROL
from culm_models.keys import KeyPair
from culm_topics.records import RejectedRecord
from tests.models.bamboo_p2p.hand_made import HandMade, proposal
from tests.models.bamboo_p2p.logs import AUTHOR, LOG
from tests.models.bamboo_p2p.test_bamboo_p2p_reactions import ENTRIES, other_branch
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import OTHER_LOG, PROOF, VIOLATIONS
from tests.support.brokerless_bamboo import BrokerlessEdge, brokerless_edge
from tests.support.hand_made_bamboo import be_called_and_break, call_and_break
from tests.support.hostile_bamboo import hostile_channels
from tests.support.waiting import until, while_working

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
        found = await rejected(edge)
        assert await edge.flavour.peer.read(lambda store: store.fork_proof(LOG)) is None
    assert isinstance(error, EvidenceBogus)
    if scheme == "quic":
        assert reason is not None and (reason.code, reason.text) == (0x0D, EvidenceBogus.code)
        assert found.brought_by == STRANGER.public_key
    else:
        assert found.brought_by == peer_id("address:127.0.0.1")
    said = tuple(one for one in (found.first, found.entry) if one is not None)
    assert (found.code, said) == (EvidenceBogus.code, evidence)


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
            found = await rejected(edge)
        assert (found.code, found.brought_by) == (ForkError.code, STRANGER.public_key)
        assert (found.first, found.entry) == PROOF.entries
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
            found = await rejected(edge)
        theirs = await source.read(lambda store: store.entry(LOG, 4))
        assert theirs is not None
        proof = (ENTRIES[3].entry_bytes, theirs.entry_bytes)
        assert (found.code, found.brought_by) == (ForkError.code, STRANGER.public_key)
        assert (found.first, found.entry, found.seq_num) == (*proof, 4)
        assert await answers_to(reader, url) is CancelCode.FORKED
        assert await reader.read(lambda store: store.fork_proof(LOG)) == proof
