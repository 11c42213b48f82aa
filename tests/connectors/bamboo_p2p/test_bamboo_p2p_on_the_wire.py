"""Every invariant of reference 3.9, broken over a real connection, and what follows each cancel (3.8).

What is said is what the hand-made ends of the models' tests say, byte by byte; here the other end is a whole
peer, called or calling, over QUIC's two streams and over bymux on TCP.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p import session as session_module
from culm_connectors.bamboo_p2p.interest import FollowedLog
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
from culm_connectors.bamboo_p2p.policy.enforcement import log_name
from culm_connectors.bamboo_p2p.remote_peer import PeerHooks, RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.edge import pump as pump_module
from culm_connectors.url import Scheme, Url
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import Changes
from culm_models.bamboo_p2p.events import BambooP2pEvent, Proposed, RequestCancelled
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.bamboo_p2p.settings import PAUSE_MS
from culm_models.bamboo_p2p.wire.messages import CancelCode
from culm_models.keys import KeyPair
from tests.models.bamboo_p2p.test_bamboo_p2p_further_violations import FURTHER
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import VIOLATIONS
from tests.support.bamboo.hand_made import be_called_and_break, call_and_break
from tests.support.process.waiting import until, while_working

AUTHOR = KeyPair.generate(b"author of what is cancelled")
LOG, OTHER = (AUTHOR.public_key, 0), (AUTHOR.public_key, 1)


class Party(PeerHooks):
    """A peer in a folder, and what it was told: proposals, and the codes of cancels.

    While it is short of resources it refuses `OTHER` (129): until it was told of `room_behind` proposals, or
    of a cancel that makes room.
    """

    def __init__(self, store: FolderStore) -> None:
        self.peer: BambooPeer
        self.url: Url
        self.store = store
        self.proposed = 0
        self.codes: list[CancelCode] = []
        self.room_behind = 1_000

    def settled(
        self, changes_of: Sequence[tuple[str, Changes]], events_of: Mapping[str, Sequence[BambooP2pEvent]]
    ) -> None:
        for event in (reported for several in events_of.values() for reported in several):
            if isinstance(event, Proposed):
                self.proposed += 1
            elif isinstance(event, RequestCancelled):
                self.codes.append(event.code)
                if event.code is CancelCode.RESOURCES:
                    self._have_room()
        if self.proposed >= self.room_behind:
            self._have_room()

    def _have_room(self) -> None:
        if self.store.paused:
            self.store.pause(log_name(OTHER), is_paused=False)

    async def has(self, log: LogKey, *payloads: int) -> bool:
        return await self.peer.read(
            lambda store: all(store.has_payload(log, payload) for payload in payloads)
        )

    async def until_it_has(self, log: LogKey, *payloads: int) -> None:
        changed = asyncio.Event()
        self.peer.listeners.append(lambda _, __: changed.set())
        while not await self.has(log, *payloads):
            await changed.wait()
            changed.clear()

    async def write(self, log: LogKey, count: int, branch: bytes = b"", *, end_of_log: bool = False) -> None:
        for number in range(1, count + 1):
            payload = b"%s%d" % (branch, number)
            await self.peer.publish(AUTHOR, log[1], payload, end_of_log=end_of_log and number == count)

    async def drop(self, log: LogKey, seq_num: int) -> None:
        await self.peer.read(lambda store: store.drop_payload(log, seq_num))

    async def proof(self) -> set[bytes]:
        return set(await self.peer.read(lambda store: store.fork_proof(LOG)) or ())

    async def entry(self, seq_num: int) -> bytes:
        stored = await self.peer.read(lambda store: store.entry(LOG, seq_num))
        assert stored is not None
        return stored.entry_bytes


@asynccontextmanager
async def parties(folder: Path, scheme: Scheme, count: int = 2) -> AsyncIterator[list[Party]]:
    """So many, each of whom listens; the first holds what the others ask for."""
    async with AsyncExitStack() as stack:
        opened_parties = []
        for number in range(count):
            party = Party(FolderStore(folder / str(number), YAMF))
            stack.callback(party.store.close)
            party.peer = await stack.enter_async_context(BambooPeer.over(party.store, hooks=party))
            party.url = await stack.enter_async_context(party.peer.listen(Url(scheme, "127.0.0.1", 0)))
            opened_parties.append(party)
        yield opened_parties


@pytest.fixture(params=["quic", "tcp"])
def scheme(request: pytest.FixtureRequest) -> Scheme:
    chosen: Scheme = request.param
    return chosen


async def nothing_else_was_proposed(holder: Party, reader: Party, remote: RemotePeer) -> bool:
    """Of what was asked of `holder`: when a later request is through, there was none between."""
    before = holder.proposed
    await holder.write(OTHER, 1)
    await reader.peer.ask(remote, FollowedLog(OTHER, 1, 1))
    await reader.until_it_has(OTHER, 1)
    return holder.proposed == before + 1


async def test_128_is_not_proposed_again_in_the_connection_and_is_in_the_next(
    tmp_path: Path, scheme: Scheme
) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 3)
        await holder.peer.use_policy(FolderPolicy.model_validate({"default": {"read": [], "write": []}}))
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(LOG))
            await until(lambda: reader.codes == [CancelCode.REFUSED])
            await holder.peer.use_policy(None)
            assert await reader.peer.ask(remote, FollowedLog(LOG)) == []
            assert await nothing_else_was_proposed(holder, reader, remote)
        await reader.peer.follow(FollowedLog(LOG))
        async with reader.peer.connect(holder.url):
            await reader.until_it_has(LOG, 1, 2, 3)


async def test_129_frees_the_least_useful_request_and_is_tried_again(tmp_path: Path, scheme: Scheme) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 1)
        await holder.write(OTHER, 1)
        await holder.peer.pause(log_name(OTHER))
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(LOG))
            await reader.until_it_has(LOG, 1)
            await reader.peer.ask(remote, FollowedLog(OTHER))
            await reader.until_it_has(OTHER, 1)
        assert reader.codes == [CancelCode.RESOURCES, CancelCode.CONFIRMED]
        # The live request made room for it: cancelled with 129 by who had asked for both.
        assert holder.codes == [CancelCode.CONFIRMED, CancelCode.RESOURCES]


async def test_129_without_a_request_to_give_up_is_tried_again_when_one_is_freed(
    tmp_path: Path, scheme: Scheme
) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 1)
        await holder.write(OTHER, 1)
        await holder.peer.pause(log_name(OTHER))
        holder.room_behind = 2
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(OTHER))
            await until(lambda: reader.codes == [CancelCode.RESOURCES])
            await reader.peer.ask(remote, FollowedLog(LOG, 1, 1))
            await reader.until_it_has(OTHER, 1)
        assert holder.proposed == 3


async def test_130_ends_it_and_what_is_missing_is_not_asked_of_this_peer_again(
    tmp_path: Path, scheme: Scheme
) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 4)
        await holder.drop(LOG, 2)
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(LOG, 1, 4))
            await reader.until_it_has(LOG, 1, 3, 4)
            await until(lambda: CancelCode.DONE in reader.codes + holder.codes)
            assert await nothing_else_was_proposed(holder, reader, remote)
        assert not await reader.has(LOG, 2)


async def test_131_leads_to_nothing(tmp_path: Path, scheme: Scheme) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 1)
        async with reader.peer.connect(holder.url) as remote:
            (request,) = await reader.peer.ask(remote, FollowedLog(LOG))
            await reader.until_it_has(LOG, 1)
            await remote.cancel(request.id)
            await until(lambda: reader.codes == [CancelCode.CONFIRMED])
            assert await nothing_else_was_proposed(holder, reader, remote)
            assert holder.codes[0] is CancelCode.DONE


async def test_132_is_proposed_again_without_mandatory(tmp_path: Path, scheme: Scheme) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 4)
        await holder.drop(LOG, 2)
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(LOG, 1, 4, mandatory=True))
            await reader.until_it_has(LOG, 1, 3, 4)
        assert reader.codes[0] is CancelCode.MANDATORY
        assert holder.proposed == 2
        assert not await reader.has(LOG, 2)


async def asks_in_vain(reader: Party, holder: Party) -> CancelCode:
    """What somebody is told who asks for the log."""
    async with reader.peer.connect(holder.url) as remote:
        await reader.peer.ask(remote, FollowedLog(LOG))
        await until(lambda: bool(reader.codes))
        assert remote.session.error is None
    return reader.codes[-1]


async def test_133_leaves_both_entries_as_the_proof_and_further_proposals_get_135(
    tmp_path: Path, scheme: Scheme
) -> None:
    async with parties(tmp_path, scheme, 3) as (holder, reader, third):
        await holder.write(LOG, 13, b"one")
        await reader.write(LOG, 12, b"other")
        assert await asks_in_vain(reader, holder) is CancelCode.HASH_MISMATCH
        # Of the pool of 13 the reader lacks 13 alone, whose lipmaalink leads to 4.
        proof = {await holder.entry(4), await reader.entry(4)}
        assert await reader.proof() == proof
        assert await asks_in_vain(third, reader) is CancelCode.FORKED
        assert await third.proof() == proof


async def test_134_has_the_end_of_the_log_asked_for(tmp_path: Path, scheme: Scheme) -> None:
    async with parties(tmp_path, scheme) as (holder, reader):
        await holder.write(LOG, 5, end_of_log=True)
        async with reader.peer.connect(holder.url) as remote:
            await reader.peer.ask(remote, FollowedLog(LOG, 9))
            await reader.until_it_has(LOG, 5)
        assert reader.codes[0] is CancelCode.END_OF_LOG and holder.proposed == 2
        assert await reader.peer.read(lambda store: store.end_of_log(LOG)) == 5


async def test_135_leaves_the_proof_which_goes_on_to_whoever_asks(tmp_path: Path, scheme: Scheme) -> None:
    async with parties(tmp_path, scheme, 3) as (holder, reader, third):
        await holder.write(LOG, 1, b"one")
        await reader.write(LOG, 1, b"other")
        await holder.peer.add([NewEntry(await reader.entry(1))])
        proof = {await holder.entry(1), await reader.entry(1)}
        assert await holder.proof() == proof
        assert await asks_in_vain(third, holder) is CancelCode.FORKED
        assert await third.proof() == proof
        assert await asks_in_vain(reader, third) is CancelCode.FORKED
        assert await reader.proof() == proof


BROKEN = VIOLATIONS | FURTHER


@pytest.mark.parametrize("scheme", ["tcp", "quic"])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_violation_ends_a_real_connection_with_its_code(
    tmp_path: Path, name: str, scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, break_it = BROKEN[name]
    made = break_it()
    if "for ever" in name:
        _let_time_fly(monkeypatch)
    settings = BambooPeerSettings(connection=made.settings)
    meet = be_called_and_break if made.is_proactive else call_and_break
    async with (
        while_working(),
        BambooPeer.open(tmp_path / "real", flavour=YAMF, settings=settings) as peer,
    ):
        await peer.add(list(made.held))
        error, reason = await meet(made, peer, Url(scheme, "127.0.0.1", 0))
    assert getattr(error, "code", error) == f"bamboo_p2p.{code}"
    if scheme == "quic":
        assert reason is not None and reason.application
        assert (reason.code, reason.text) == (made.end.dropped.number, f"bamboo_p2p.{code}")  # type: ignore[union-attr]


def _let_time_fly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds that half of the longest wait is over."""
    looks = itertools.count()
    monkeypatch.setattr(session_module, "now_ms", lambda: next(looks) * PAUSE_MS // 2)
    monkeypatch.setattr(pump_module, "_TICK_S", 0.001)
