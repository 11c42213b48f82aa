"""The replicas: each connects to its edge, and reconnects whenever the connection has ended.

One of them is recorded: at every connection it sends again, byte for byte, what a Go replica sent. Received
packets are merged into the store that the Go replica had, by our models with the Go replica's rules; pings
are answered. Its own diff comes from the recording alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import random
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib import resources
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from culm_connectors.chotki.dial import dialled
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import Identity, TransportError, TransportSettings
from culm_connectors.transport.interface import ByteChannel
from culm_infra.demo.chotki.edits import RECORDED_ROLE, RECORDED_SOURCE, ROLES, Editor, ReplicaRole
from culm_infra.stack.ports import HOST
from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.packets.packet import outer_letter
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.store import MemoryStore

_LIFE = datetime.timedelta(days=1)


def make_certificate(folder: Path) -> TlsFiles:
    """Write a certificate and its key into a folder, valid for a day. The certificate is its own `ca`."""
    key = Ed25519PrivateKey.generate()
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an edge of the demo")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, None)
    )
    files = TlsFiles(certificate=folder / "tls.pem", private_key=folder / "tls.key", ca=folder / "tls.pem")
    assert files.certificate is not None and files.private_key is not None, "just named"
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.private_key.touch(mode=0o600)
    files.private_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


_READ_BYTES = 64 * 1024
_RECORDED_LETTERS = "HDV"
_SESSION = "recorded"


class RecordedReplica:
    """The recorded replica; `replica` keeps what it receives. For one event loop."""

    def __init__(self) -> None:
        recording = json.loads((resources.files(__package__) / "data" / "go_replica.json").read_text())
        self.stream = bytes.fromhex(recording["stream"])
        store = {bytes.fromhex(key): bytes.fromhex(value) for key, value in recording["store"].items()}
        self.replica = Replica(RECORDED_SOURCE, MemoryStore(store), compat=Compat.GO)
        self.replayed = 0
        """Number of times that the recording was sent."""

    async def run_session(self, channel: ByteChannel) -> None:
        """Run one session on a channel until it ends."""
        # The replica's own first records are dropped: the recording replaces them.
        self.replica.open_session(_SESSION, _now_ms())
        try:
            await channel.write(self.stream)
            self.replayed += 1
            while data := await channel.read(_READ_BYTES):
                output = self.replica.receive(_SESSION, data, _now_ms())
                if answer := _answer(output):
                    await channel.write(answer)
                if output.closed:
                    return
        finally:
            if not self.replica.sessions[_SESSION].is_over:
                self.replica.lose_session(_SESSION, _now_ms())
            with contextlib.suppress(TransportError, asyncio.CancelledError):
                channel.abort()


def _answer(output: Output) -> bytes:
    records = output.of(_SESSION)
    return b"".join(packet for packet in records if outer_letter(packet) not in _RECORDED_LETTERS)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


_REDIAL_S = 0.2
_KEY_BYTES = 32


@dataclass(slots=True)
class ReplicaActor:
    """A replica, the address of its edge, and how many sessions it has had."""

    role: ReplicaRole
    endpoint: ReplicaPeer | RecordedReplica
    url: str
    sessions: int = 0

    @property
    def replica(self) -> Replica:
        """The replica's state."""
        return self.endpoint.replica


@dataclass(slots=True)
class DemoReplicas:
    """All participants. `latencies_ms`: of live packets, from the replica that made one to each other
    replica.
    """

    actors: list[ReplicaActor]
    editors: list[Editor]
    recorded: RecordedReplica
    latencies_ms: list[float] = field(default_factory=list)

    def receive_event(self, event: events.SessionEvent) -> None:
        """Record the latency of a packet that an editing replica has applied."""
        if isinstance(event, events.PacketApplied):
            now_s = time.monotonic()
            times_s = (
                editor.committed_s[event.id] for editor in self.editors if event.id in editor.committed_s
            )
            self.latencies_ms += [(now_s - committed_s) * 1_000 for committed_s in times_s]


def make_replicas(seed: int, addresses: list[dict[str, str]]) -> DemoReplicas:
    """Create all replicas, with empty stores except the recorded one; `addresses`: by scheme, for each
    edge.
    """
    peers = [ReplicaPeer(Replica(role.src, name=role.name, seed=seed)) for role in ROLES]
    recorded = RecordedReplica()
    endpoints: list[ReplicaPeer | RecordedReplica] = [*peers, recorded]
    actors = [
        ReplicaActor(role, endpoint, addresses[role.edge][role.scheme])
        for role, endpoint in zip((*ROLES, RECORDED_ROLE), endpoints, strict=True)
    ]
    editors = [
        Editor(role.name, peer, random.Random(f"{seed} {role.name}"))
        for role, peer in zip(ROLES, peers, strict=True)
    ]
    replicas = DemoReplicas(actors, editors, recorded)
    for peer in peers:
        peer.listeners.append(lambda _, event: replicas.receive_event(event))
    return replicas


@contextlib.asynccontextmanager
async def connected(actors: list[ReplicaActor], tls: TlsFiles) -> AsyncIterator[None]:
    """Keep all replicas connected while the context lasts."""
    tasks = [asyncio.create_task(_keep_calling(actor, tls), name=actor.role.name) for actor in actors]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_calling(actor: ReplicaActor, tls: TlsFiles) -> None:
    identity = Identity.from_private_key(secrets.token_bytes(_KEY_BYTES))
    transport = TransportSettings(datagram_bytes="auto")
    while True:
        with contextlib.suppress(TransportError):
            async with dialled(actor.url, identity, tls, transport) as channel:
                actor.sessions += 1
                await actor.endpoint.run_session(channel)
        await asyncio.sleep(_REDIAL_S)
