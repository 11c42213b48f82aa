"""The reference full participant: its own SDS state in a folder, messages over QUIC through an edge.

    async with SdsPeer(folder, "general", key_pair=key_pair) as peer:
        peer.dial(("127.0.0.1", 4455))
        message_id = await peer.send(b"hello")
        await peer.acknowledged(message_id)

It works without a connection too: messages wait in its state, and are sent when there is one. While
there is none nothing is re-sent, given up or lost: the timers count only the time in which others could
have received messages. The wall clock, which may be set, is used for Lamport timestamps alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from culm_connectors.sds.errors import SdsEdgeError
from culm_connectors.sds.history.retrieval import cut
from culm_connectors.sds.participants.calling import Call, Dials, keep_calling, refusal
from culm_connectors.sds.participants.participant import LoggedMessage, Participant, ParticipantStep
from culm_connectors.sds.participants.passing_time import PassingTime, elapsed_ms
from culm_connectors.sds.participants.state import StateFolder
from culm_connectors.transport import Address, Identity, TransportSettings
from culm_models.keys import KeyPair
from culm_models.sds.channel_state import Status
from culm_models.sds.errors import SdsError
from culm_models.sds.events import Acknowledged, FetchRequest, GaveUp, SdsEvent
from culm_models.sds.frames.messages import (
    MAX_ENTRIES,
    Fetch,
    Fetched,
    Frame,
    Head,
    Join,
    Joined,
    Leave,
    Mark,
    Refused,
    SdsMessage,
)
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile

logger = logging.getLogger(__name__)

_MAX_WAITING_INPUTS = 1_024
_BATCH_INPUTS = 256
_NONCE_BYTES = 16
_SEED_BYTES = 32
_IN_TRANSIT_S = 10.0
"""Age up to which a message is sent once more after its connection has ended."""

EventListener = Callable[[SdsEvent], None]
LogListener = Callable[[LoggedMessage], None]
Work = Callable[[int], ParticipantStep]
"""One step of the machine, to be done in its turn, at the time that it is then."""
_CLOCK_DRIFT_MS = 250
"""Milliseconds by which the wall clock may move against the timers before the machine is informed."""


def wall_clock_ms() -> int:
    """Wall-clock time in milliseconds."""
    return time.time_ns() // 1_000_000


class SdsPeer:
    """A full participant of one channel; an asynchronous context manager, for one event loop.

    `participant_id`: the key's own id unless given. A new participant reads what the store holds from its
    beginning. `log_listeners` receive every message of the log once, with its number, after it is recorded;
    `listeners` receive every event of the machine, including ephemeral messages. A process that ends between
    recording and notifying has recorded messages that no listener received. A program that must not miss them
    reads `history` after the last number that it has processed.

    Raises `StateError`, `OSError` when it is entered.
    """

    def __init__(
        self,
        folder: Path,
        channel_id: str,
        *,
        key_pair: KeyPair,
        participant_id: str | None = None,
        profile: Profile = "spec",
        settings: SdsSettings | None = None,
        durable: bool = True,
        transport: TransportSettings | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        elapsed_ms: Callable[[], int] = elapsed_ms,
    ) -> None:
        self.channel_id = channel_id
        self.profile = profile
        self.participant_id = participant_id or key_pair.public_key.hex()
        self.listeners: list[EventListener] = []
        self.log_listeners: list[LogListener] = []
        self.problem: Exception | None = None
        """The error that prevented or ended the last call."""
        self.joined = asyncio.Event()
        """Set while the channel is joined."""
        self.present = asyncio.Event()
        """Set once what the store held has been read on the connection of now."""
        self._identity = Identity.from_private_key(key_pair.private_key)
        self._path = folder
        self._settings = settings
        self._durable = durable
        self._transport = transport or TransportSettings(datagram_bytes="auto")
        self._now_ms = now_ms
        self._elapsed_ms = elapsed_ms
        self._stack = contextlib.AsyncExitStack()
        self._inputs: asyncio.Queue[tuple[Work, asyncio.Future[ParticipantStep] | None]] = asyncio.Queue(
            _MAX_WAITING_INPUTS
        )
        self._dials = Dials()
        self._call: Call | None = None
        self._requests = itertools.count()
        self._unacknowledged: set[str] = set()
        self._unsaid: set[str] = set()
        """Unacknowledged messages that no connection has taken."""
        self._latest: deque[tuple[float, str]] = deque(maxlen=_MAX_WAITING_INPUTS)
        """Times and ids of messages that the connection has taken; the edge may not have read the latest."""
        self._settled: dict[str, bool] = {}
        self._changed = asyncio.Event()
        self._warned = False

    async def __aenter__(self) -> SdsPeer:
        async with contextlib.AsyncExitStack() as stack:
            folder = stack.enter_context(
                await asyncio.to_thread(StateFolder, self._path, durable=self._durable)
            )
            self._participant = await asyncio.to_thread(self._restored, folder)
            self._time = PassingTime(self._participant.now_ms, self._elapsed_ms)
            self._unacknowledged = {message.message_id for message in self.status().outgoing}
            self._unsaid = set(self._unacknowledged)
            # Each process reports its clock once, and learns whether that is too far behind the log.
            self._inputs.put_nowait((self._clock_now, None))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(group.create_task(self._work()).cancel)
            stack.push_async_callback(self._dials.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            await self._stack.__aexit__(kind, error, trace)
        else:
            await self._stack.aclose()

    def _restored(self, folder: StateFolder) -> Participant:
        return Participant(
            folder,
            self.channel_id,
            self.profile,
            self.participant_id,
            settings=self._settings,
            now_ms=self._now_ms(),
            seed=secrets.token_bytes(_SEED_BYTES),
        )

    # For the program around.

    def dial(self, address: Address, expected_peer_id: bytes | None = None) -> asyncio.Task[None]:
        """Keep a connection to an edge, dialling again when it ends; cancel the task to stop.

        The task ends with `JoinRefusedError` if the edge does not admit this participant.
        """
        return self._dials.start(
            keep_calling(address, self._identity, expected_peer_id, self._transport, self._talk, self._failed)
        )

    async def send(self, content: bytes, *, ephemeral: bool = False) -> str:
        """Send a message; returns its message id once it is recorded, sent or waiting for a connection.

        Raises `SdsError` if the machine refuses it, `SdsEdgeError` for an ephemeral message without a
        connection.
        """
        if ephemeral and self._call is None:
            raise SdsEdgeError("an ephemeral message needs a connection: nothing keeps it")
        nonce = secrets.token_bytes(_NONCE_BYTES)
        step = await self._do(
            lambda now_ms: self._participant.send(content, now_ms, nonce, ephemeral=ephemeral)
        )
        return step.output.send[0].message_id

    async def acknowledged(self, message_id: str) -> bool:
        """Wait until a message of this participant is acknowledged; returns False if it was given up."""
        await self.wait_for(lambda: message_id not in self._unacknowledged)
        return self._settled.get(message_id, True)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on what this participant knows holds."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def status(self) -> Status:
        """Return what the machine knows and waits for."""
        return self._participant.status()

    def history(self, after: int = 0) -> Iterator[LoggedMessage]:
        """Yield the messages logged after the number `after`, also by former processes; reads the folder."""
        return self._participant.history(after)

    async def leave(self) -> None:
        """Leave the channel, and wait until the edge has received the frame."""
        if self._call is not None and self._send_frame(Leave(self.channel_id)):
            await self._call.flush()

    # The machine's turn.

    async def _do(self, work: Work) -> ParticipantStep:
        done: asyncio.Future[ParticipantStep] = asyncio.get_running_loop().create_future()
        await self._inputs.put((work, done))
        return await done

    async def _work(self) -> None:
        while True:
            batch = await self._next_batch()
            now_ms = self._time.advance(self._participant.next_due_ms())
            done: list[tuple[ParticipantStep, asyncio.Future[ParticipantStep] | None]] = []
            if abs(self._participant.clock_at(now_ms) - self._now_ms()) > _CLOCK_DRIFT_MS:
                done.append((self._clock_now(now_ms), None))
            for work, future in batch:
                try:
                    done.append((work(now_ms), future))
                except SdsError as error:
                    if future is None or future.cancelled():
                        raise
                    future.set_exception(error)
            if self._participant.has_uncommitted:
                await asyncio.to_thread(self._participant.commit)
            for step, future in done:
                self._act(step)
                if future is not None and not future.cancelled():
                    future.set_result(step)
            if self._participant.is_elsewhere and not self._warned:
                self._warned = True
                logger.warning(
                    "%s is active elsewhere: a message under this participant id came into the channel %s "
                    "that was not sent here. Two programs must not share an id",
                    self.participant_id,
                    self.channel_id,
                )
            self._changed.set()

    def _clock_now(self, now_ms: int) -> ParticipantStep:
        return self._participant.set_clock(now_ms, self._now_ms())

    async def _next_batch(self) -> list[tuple[Work, asyncio.Future[ParticipantStep] | None]]:
        try:
            async with asyncio.timeout(self._pause_s()):
                batch = [await self._inputs.get()]
        except TimeoutError:
            return [(self._participant.tick, None)]
        while len(batch) < _BATCH_INPUTS and not self._inputs.empty():
            batch.append(self._inputs.get_nowait())
        return batch

    def _pause_s(self) -> float | None:
        """Return the seconds until the machine is due; None if nothing is due or the peer is not present."""
        due_ms = self._participant.next_due_ms()
        if due_ms is None or not self.present.is_set():
            return None
        # The first moment at which it is due: the time counts whole milliseconds.
        return max(0, due_ms - self._time.advance(due_ms) + 1) / 1_000

    def _act(self, step: ParticipantStep) -> None:
        for message in step.output.send:
            is_sent = self._send_frame(SdsMessage(self.channel_id, message.wire))
            if message.kind in ("new", "retry"):
                self._unacknowledged.add(message.message_id)
                (self._unsaid.discard if is_sent else self._unsaid.add)(message.message_id)
                if is_sent and message.kind == "new":
                    self._latest.append((time.monotonic(), message.message_id))
        for missing in step.output.fetch:
            self._fetch(missing)
        for entry in step.logged:
            for listener in self.log_listeners:
                listener(entry)
        for event in step.output.events:
            if isinstance(event, Acknowledged | GaveUp):
                self._settled[event.message_id] = isinstance(event, Acknowledged)
                self._unacknowledged.discard(event.message_id)
                self._unsaid.discard(event.message_id)
                if len(self._settled) > _MAX_WAITING_INPUTS:
                    del self._settled[next(iter(self._settled))]
            for notify in self.listeners:
                notify(event)

    def _failed(self, error: Exception) -> None:
        self.problem = error

    def _send_frame(self, frame: Frame) -> bool:
        return self._call is not None and self.joined.is_set() and self._call.send(frame)

    def _fetch(self, missing: FetchRequest) -> None:
        for start in range(0, len(missing.entries), MAX_ENTRIES):
            entries = missing.entries[start : start + MAX_ENTRIES]
            self._send_frame(Fetch(self.channel_id, next(self._requests), entries))

    # The connection.

    async def _talk(self, call: Call) -> None:
        cursor = self._participant.cursor or b""
        call.send(Join(self.channel_id, self.profile, self.participant_id, cursor=cursor))
        self._call = call
        try:
            await self._receive(call)
        finally:
            self._call = None
            self._repeat_latest()
            self.joined.clear()
            self.present.clear()
            self._time.stop()

    def _repeat_latest(self) -> None:
        """Send the last messages again over the next connection, long before the machine would."""
        since_s = time.monotonic() - _IN_TRANSIT_S
        self._unsaid.update(id for at_s, id in self._latest if at_s >= since_s and id in self._unacknowledged)
        self._latest.clear()

    async def _receive(self, call: Call) -> None:
        participant = self._participant
        async for frame in call.frames:
            match frame:
                case SdsMessage(wire=wire, retrieval_hint=hint):
                    await self._take(partial(participant.receive, wire, hint=hint))
                case Fetched(wires=wires):
                    for wire, hint in wires:
                        await self._take(partial(participant.receive, wire, hint=hint, from_store=True))
                case Head(newest=newest):
                    await self._take(partial(participant.compare_head, newest))
                case Mark(cursor=cursor, present=present):
                    await self._take(partial(participant.stand_at, cursor))
                    if present:
                        await self._is_present()
                case Joined():
                    call.joined = True
                    await self._has_joined()
                case Fetch():
                    self._answer(frame)
                case Refused():
                    refused = refusal(frame)
                    if refused is not None:
                        raise refused
                    logger.warning("the edge refuses: %s (%s)", frame.message, frame.code)
                    if not self.joined.is_set():
                        return
                case _:
                    pass

    async def _has_joined(self) -> None:
        self.joined.set()
        if self._unsaid:
            await self._take(partial(self._participant.say_again, tuple(self._unsaid)))

    async def _is_present(self) -> None:
        """The machine's timers run from now on; nothing is lost before it was asked for once more."""
        if not self.present.is_set():
            self.present.set()
            self._time.run()
            await self._take(self._participant.reached)

    async def _take(self, work: Work) -> None:
        await self._inputs.put((work, None))

    def _answer(self, frame: Fetch) -> None:
        wires: Sequence[tuple[bytes, bytes | None]] = [
            (wire, None)
            for entry in frame.entries
            if (wire := self._participant.wire(entry.message_id)) is not None
        ]
        for part in cut(self.channel_id, frame.request, wires):
            self._send_frame(part)
