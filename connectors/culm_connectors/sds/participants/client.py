"""The thin client of a participant that the pipeline hosts: commands in, events out.

    async with SdsClient("general", key_pair=key_pair) as client:
        client.dial(("127.0.0.1", 4455))
        message_id = await client.send(b"hello")
        await client.acknowledged(message_id)

The state of the participant is in the deployment and does not need its client. The client keeps its position
in the events of the channel (`position`). With it, it receives each event once, at whichever connector it
continues. A command is repeated with its token until the edge has it, and executed once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from culm_connectors.sds.errors import CommandRefusedError, SdsEdgeError
from culm_connectors.sds.participants.calling import Call, Dials, keep_calling, refusal
from culm_connectors.transport import Address, Identity, TransportSettings
from culm_models.keys import KeyPair
from culm_models.sds.frames.messages import (
    TOKEN_BYTES,
    Accepted,
    EventFrame,
    Join,
    Joined,
    Leave,
    Mark,
    Refused,
    Send,
    Setting,
)
from culm_models.sds.wire.messages import Profile, content_message_id

logger = logging.getLogger(__name__)

Key = TypeVar("Key")
Value = TypeVar("Value")

_MAX_WAITING = 1_024
_MAX_SETTLED = 10_000

EventListener = Callable[[EventFrame], None]
"""Receives an event on the event loop; it must not block."""


@dataclass(frozen=True, slots=True)
class EventPosition:
    """A client's position in its channel's events: the last number, and the edge's cursor after it."""

    number: int = 0
    cursor: bytes | None = None


FROM_NOW = EventPosition()
FROM_THE_BEGINNING = EventPosition(0, b"")


@dataclass(slots=True)
class _Waiting:
    frame: Send
    message_id: str
    accepted: asyncio.Future[str]


class SdsClient:
    """A client of one hosted participant; an asynchronous context manager, for one event loop.

    `settings`: the settings of the channel that differ from the profile's, for its first join. `listeners`
    receive each event of the channel that concerns the participant once, in the order of the numbers, and
    ephemeral messages, which have no number.
    """

    def __init__(
        self,
        channel_id: str,
        *,
        key_pair: KeyPair,
        participant_id: str | None = None,
        profile: Profile = "spec",
        settings: Mapping[str, Setting] | None = None,
        position: EventPosition = FROM_NOW,
        transport: TransportSettings | None = None,
    ) -> None:
        self.channel_id = channel_id
        self.profile = profile
        self.participant_id = participant_id or key_pair.public_key.hex()
        self.listeners: list[EventListener] = []
        self.position = position
        self.problem: Exception | None = None
        """The error that prevented or ended the last call."""
        self.joined = asyncio.Event()
        """Set while the channel is joined."""
        self._identity = Identity.from_private_key(key_pair.private_key)
        self._settings = dict(settings or {})
        self._transport = transport or TransportSettings(datagram_bytes="auto")
        self._dials = Dials()
        self._call: Call | None = None
        self._by_token: dict[bytes, str] = {}
        """Ids of recently accepted messages, by token."""
        self._waiting: dict[bytes, _Waiting] = {}
        self._settled: dict[str, bool] = {}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> SdsClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for waiting in self._waiting.values():
            waiting.accepted.cancel()
        await self._dials.close()

    def dial(self, address: Address, expected_peer_id: bytes | None = None) -> asyncio.Task[None]:
        """Keep a connection to an edge, dialling again when it ends; cancel the task to stop.

        The task ends with `JoinRefusedError` if the edge refuses this participant.
        """
        return self._dials.start(
            keep_calling(address, self._identity, expected_peer_id, self._transport, self._talk, self._failed)
        )

    async def send(self, content: bytes, *, ephemeral: bool = False, token: bytes | None = None) -> str:
        """Send a message; returns its id once the edge has it durably. It may wait for a connection.

        `token`: 16 bytes of the caller, which make a repetition by another process the same message.
        Raises `CommandRefusedError`; `SdsEdgeError` if too much waits, or for an ephemeral message
        without a connection.
        """
        if len(self._waiting) >= _MAX_WAITING:
            raise SdsEdgeError(f"{_MAX_WAITING} messages wait for the edge", hint="is it reachable?")
        if ephemeral and not self.joined.is_set():
            raise SdsEdgeError("an ephemeral message needs a connection: nothing keeps it")
        token = secrets.token_bytes(TOKEN_BYTES) if token is None else token
        message_id = content_message_id(self.channel_id, self.participant_id, token, content)
        waiting = self._waiting[token] = _Waiting(
            Send(self.channel_id, token, content, ephemeral),
            message_id,
            asyncio.get_running_loop().create_future(),
        )
        try:
            if self._call is not None and self.joined.is_set():
                self._call.send(waiting.frame)
            return await waiting.accepted
        finally:
            self._waiting.pop(token, None)

    async def acknowledged(self, message_id: str) -> bool:
        """Wait until an event reports that a message of this participant was acknowledged.

        False: it was given up, or refused by the job.
        """
        while message_id not in self._settled:
            self._changed.clear()
            await self._changed.wait()
        return self._settled[message_id]

    async def leave(self, *, final: bool = False) -> None:
        """Leave the channel; `final` ends the participant itself, for all of its clients."""
        if self._call is not None and self._call.send(Leave(self.channel_id, final)):
            await self._call.flush()

    async def _talk(self, call: Call) -> None:
        resume_at = self.position
        call.send(
            Join(
                self.channel_id,
                self.profile,
                self.participant_id,
                hosted=True,
                cursor=resume_at.cursor,
                after=resume_at.number,
                settings=self._settings,
            )
        )
        self._call = call
        try:
            async for frame in call.frames:
                match frame:
                    case EventFrame():
                        self._take_event(frame)
                    case Accepted(token=token):
                        self._accept(token)
                    case Mark(cursor=cursor):
                        self.position = EventPosition(self.position.number, cursor)
                    case Joined():
                        call.joined = True
                        self.joined.set()
                        for waiting in self._waiting.values():
                            call.send(waiting.frame)
                    case Refused():
                        self._refused(frame)
                        if not self.joined.is_set():
                            break
                    case _:
                        pass
        finally:
            self._call = None
            self.joined.clear()

    def _failed(self, error: Exception) -> None:
        self.problem = error

    def _take_event(self, event: EventFrame) -> None:
        if event.number is not None:
            if event.number <= self.position.number:
                return
            self.position = EventPosition(event.number, event.cursor)
        if event.kind in ("acknowledged", "gave_up") and event.participant_id == self.participant_id:
            _remember(self._settled, event.message_id, event.kind == "acknowledged")
        elif event.kind == "rejected":
            self._reject(event)
        for listener in self.listeners:
            listener(event)
        self._changed.set()

    def _reject(self, event: EventFrame) -> None:
        """Settle the message of a command that the job refused: it will never be acknowledged."""
        token = event.details.get("token")
        message_id = self._by_token.get(token) if isinstance(token, bytes) else None
        if message_id is not None:
            logger.warning("refused: %s (%s)", event.details.get("reason"), event.details.get("code"))
            _remember(self._settled, message_id, False)

    def _accept(self, token: bytes) -> None:
        waiting = self._waiting.get(token)
        if waiting is not None and not waiting.accepted.done():
            _remember(self._by_token, token, waiting.message_id)
            waiting.accepted.set_result(waiting.message_id)

    def _refused(self, frame: Refused) -> None:
        waiting = self._waiting.get(frame.token) if frame.token is not None else None
        if waiting is not None and not waiting.accepted.done():
            waiting.accepted.set_exception(CommandRefusedError(f"{frame.message} ({frame.code})"))
            return
        if (refused := refusal(frame)) is not None:
            raise refused
        logger.warning("the edge refuses: %s (%s)", frame.message, frame.code)


def _remember(into: dict[Key, Value], key: Key, value: Value) -> None:
    into[key] = value
    if len(into) > _MAX_SETTLED:
        del into[next(iter(into))]
