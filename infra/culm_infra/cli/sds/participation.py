"""A participant in a channel from the command line: a local full participant, or a client of a hosted one.

Commands use both as a `Participation`, whose events have the form of the topic `sds.events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from culm_infra.cli.kit.data_folder import DataDirectory, make_data_folder
from culm_infra.errors import InfraError
from culm_models.keys import KeyPair
from culm_models.sds.events import Delivered, SdsEvent, Sent
from culm_models.sds.frames.messages import EventFrame
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.sds.keys import MAX_ID_BYTES, is_id
from culm_topics.sds.records import SdsEventKind, SdsEventRecord

if TYPE_CHECKING:
    from culm_connectors.sds.participants.client import EventPosition, SdsClient
    from culm_connectors.sds.participants.participant import LoggedMessage
    from culm_connectors.sds.participants.peer import SdsPeer
    from culm_connectors.transport import Address

ProfileName = Annotated[
    Literal["spec", "js", "nim"], typer.Option("--profile", help="How the channel is written on the wire.")
]

OnEvent = Callable[["SdsEventRecord"], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantIdentity:
    """A participant's identity: its channel, its id, its key and its directory."""

    channel_id: str
    profile: Profile
    hosted: bool
    participant_id: str
    key_pair: KeyPair
    directory: Path

    @property
    def folder(self) -> Path:
        """Folder of this participant's own state."""
        name = sha256("\n".join((self.channel_id, self.profile, self.participant_id)).encode())
        return self.directory / ("hosted" if self.hosted else "channels") / name.hexdigest()[:32]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantFlags:
    """Options that choose the participant of a command."""

    profile: ProfileName = "spec"
    participant: Annotated[
        str | None, typer.Option(help="The participant's id; by default that of the key.")
    ] = None
    directory: DataDirectory = None

    def identity(self, channel_id: str, *, hosted: bool) -> ParticipantIdentity:
        """Return the participant; a missing key is created. Raises `KeyFileError`."""
        from culm_connectors.edge.keyfile import load_or_make_key

        named = None if self.participant is None else check_participant(self.participant)
        directory = make_data_folder("sds", self.directory)
        key_pair = load_or_make_key(directory)
        return ParticipantIdentity(
            channel_id=channel_id,
            profile=self.profile,
            hosted=hosted,
            participant_id=key_pair.public_key.hex() if named is None else named,
            key_pair=key_pair,
            directory=directory,
        )


def check_participant(participant_id: str) -> str:
    """Return a participant's id. Raises `InfraError` if it is malformed."""
    if not is_id(participant_id):
        raise InfraError(
            f"the participant's id has {len(participant_id.encode())} bytes",
            hint=f"1 to {MAX_ID_BYTES} are possible",
        )
    return participant_id


class Participation:
    """A participant with a connection. Made by `participating`."""

    def __init__(self, participant: SdsPeer | SdsClient, dialling: asyncio.Task[None]) -> None:
        self._participant = participant
        self.dialling = dialling
        """Ends only with an error that makes further dialling useless."""
        self.joined = participant.joined

    @property
    def problem(self) -> Exception | None:
        """The error with which the last connection attempt failed, or with which the connection ended."""
        return self._participant.problem

    async def send(self, content: bytes, *, ephemeral: bool = False) -> str:
        """Send a message. Returns its message id."""
        return await self._participant.send(content, ephemeral=ephemeral)

    async def acknowledged(self, message_id: str) -> bool:
        """Wait for the outcome of a message of this participant. Returns whether it was acknowledged."""
        return await self._participant.acknowledged(message_id)

    async def leave(self) -> None:
        """Leave the channel, and inform the edge if one is connected."""
        await self._participant.leave()

    def status(self) -> dict[str, Any] | None:
        """Return the counts of the participant's state; None for a hosted participant, whose state is
        elsewhere.
        """
        status = getattr(self._participant, "status", None)
        if status is None:
            return None
        snapshot = status()
        return {
            "messages": snapshot.log_start + len(snapshot.log),
            "unacknowledged": len(snapshot.outgoing),
            "waiting": len(snapshot.incoming),
            "missing": len(snapshot.missing),
            "lost": len(snapshot.lost),
            "lamport_timestamp": snapshot.lamport_timestamp,
        }


@contextlib.asynccontextmanager
async def participating(
    identity: ParticipantIdentity,
    address: Address,
    expected: bytes | None,
    on_event: OnEvent,
    *,
    since: EventPosition | None = None,
    keep_place: bool = True,
) -> AsyncIterator[Participation]:
    """Run a participant that keeps a connection to an edge. `on_event` receives each event once.

    A client of a hosted participant resumes where it left off, unless `since` says otherwise. With
    `keep_place` the next client resumes where this one leaves off. Raises `StateError`, `OSError`.
    """
    if identity.hosted:
        async with _hosted(identity, on_event, since, keep_place=keep_place) as client:
            yield Participation(client, client.dial(address, expected))
    else:
        async with _full(identity, on_event) as peer:
            yield Participation(peer, peer.dial(address, expected))


@contextlib.asynccontextmanager
async def _full(identity: ParticipantIdentity, on_event: OnEvent) -> AsyncIterator[SdsPeer]:
    from culm_connectors.sds.participants.peer import SdsPeer

    def forward(event: SdsEvent) -> None:
        # Messages in the log are reported once, by their number, through `log_listeners`.
        if not isinstance(event, Delivered | Sent) or event.position is None:
            on_event(of_machine(event))

    async with SdsPeer(
        identity.folder,
        identity.channel_id,
        key_pair=identity.key_pair,
        participant_id=identity.participant_id,
        profile=identity.profile,
    ) as peer:
        peer.listeners.append(forward)
        peer.log_listeners.append(lambda message: on_event(of_logged(message)))
        yield peer


@contextlib.asynccontextmanager
async def _hosted(
    identity: ParticipantIdentity, on_event: OnEvent, since: EventPosition | None, *, keep_place: bool
) -> AsyncIterator[SdsClient]:
    from culm_connectors.sds.participants.client import SdsClient

    def forward(frame: EventFrame) -> None:
        own = frame.kind == "delivered" and frame.details.get("sender_id") == identity.participant_id
        if not own:
            on_event(of_frame(frame))

    async with SdsClient(
        identity.channel_id,
        key_pair=identity.key_pair,
        participant_id=identity.participant_id,
        profile=identity.profile,
        position=_place(identity.folder) if since is None else since,
    ) as client:
        client.listeners.append(forward)
        try:
            yield client
        finally:
            if keep_place:
                _keep_place(identity.folder, client.position)


def history(identity: ParticipantIdentity, count: int) -> list[SdsEventRecord]:
    """Return the last messages that a full participant received in earlier processes."""
    from culm_connectors.sds.participants.participant import read_log

    return [of_logged(message) for message in deque(read_log(identity.folder), maxlen=count)]


# Conversion of all events to one form.


def of_logged(message: LoggedMessage) -> SdsEventRecord:
    """Convert a message of the log to an event."""
    details: dict[str, Any] = {
        "sender_id": message.sender_id,
        "lamport_timestamp": message.lamport_timestamp,
        "position": message.position,
        "gap": message.gap,
    }
    return SdsEventRecord(
        message.number,
        "sent" if message.own else "delivered",
        message.sender_id if message.own else None,
        message.message_id,
        message.time_ms,
        details,
        message.content,
    )


def of_machine(event: SdsEvent) -> SdsEventRecord:
    """Convert an event of the state machine; it has no number."""
    details: dict[str, Any] = {}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name in ("message_id", "participant_id", "content") or value is None:
            continue
        if isinstance(value, tuple):
            value = tuple(
                element.message_id if isinstance(element, HistoryEntry) else str(element) for element in value
            )
        details[field.name] = value
    return SdsEventRecord(
        0,
        cast("SdsEventKind", event.kind),
        event.participant_id,
        event.message_id,
        time.time_ns() // 1_000_000,
        details,
        getattr(event, "content", None),
    )


def of_frame(frame: Any) -> SdsEventRecord:
    """Convert an event that an edge reported."""
    details = {name: tuple(item) if isinstance(item, list) else item for name, item in frame.details.items()}
    return SdsEventRecord(
        frame.number or 0,
        frame.kind,
        frame.participant_id,
        frame.message_id,
        frame.time_ms,
        details,
        frame.content,
    )


# The position at which a hosted participant's client left off.


def _place(folder: Path) -> EventPosition:
    from culm_connectors.sds.participants.client import FROM_NOW, EventPosition

    try:
        kept = json.loads((folder / "place.json").read_text())
        return EventPosition(
            int(kept["number"]), None if kept["cursor"] is None else bytes.fromhex(kept["cursor"])
        )
    except FileNotFoundError:
        return FROM_NOW
    except (OSError, ValueError, KeyError, TypeError):
        return FROM_NOW


def _keep_place(folder: Path, position: EventPosition) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    cursor = None if position.cursor is None else position.cursor.hex()
    partial = folder / "place.json.partial"
    partial.write_text(json.dumps({"number": position.number, "cursor": cursor}))
    partial.replace(folder / "place.json")
