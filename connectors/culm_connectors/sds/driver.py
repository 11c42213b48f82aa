"""Drives SDS over many connections: accepts, serves and closes them; `channels` handles their contents.

The serving side opens the stream and sends a greeting; then frames go both ways until the connection ends.
All connections of a key share one budget.

Frames of one connection are processed in order. A frame that must wait (for the rates of its key, or for
capacity before Kafka) stops the reader, and eventually the remote. Joins and look-ups run concurrently. A
remote that does not read never delays others, and is disconnected after a time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine
from typing import Any

from culm_connectors.edge.serving import LinkEnded, ServedLinks, first_ending
from culm_connectors.rate_limit import TokenBucket
from culm_connectors.sds.backbone import Backbone, OutgoingRecord
from culm_connectors.sds.budgets import edge_budgets
from culm_connectors.sds.channels.join import enter, refusal_of
from culm_connectors.sds.channels.joined import Channels, Permit
from culm_connectors.sds.errors import OwnedSenderError
from culm_connectors.sds.history.retrieval import cut
from culm_connectors.sds.link import MemberLink, Membership, Unsent
from culm_connectors.sds.settings import SdsEdgeSettings
from culm_connectors.transport.codes import CloseCode
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import Connection, ReceiveStream, SendStream
from culm_models.errors import CulmError
from culm_models.sds.errors import (
    EmptyContentError,
    FrameError,
    FrameKindError,
    FrameTooLargeError,
    OtherChannelError,
    OversizeError,
)
from culm_models.sds.frames.codec import FrameReader
from culm_models.sds.frames.messages import (
    VERSION,
    Accepted,
    AskHead,
    Fetch,
    Fetched,
    Frame,
    Hello,
    Join,
    Leave,
    Refused,
    SdsMessage,
    Send,
)
from culm_models.sds.wire.codec import encode
from culm_models.sds.wire.messages import Message, content_message_id
from culm_topics.sds.records import SdsCommandRecord


def permit_everything(remote: bytes, channel_id: str) -> bool:
    """The rule without an allow-list."""
    return True


class SdsDriver:
    """Connections of SDS. `run` must be running while they are served."""

    def __init__(
        self,
        backbone: Backbone,
        settings: SdsEdgeSettings | None = None,
        *,
        connector_id: bytes,
        permit: Permit = permit_everything,
        chance: random.Random | None = None,
    ) -> None:
        self.settings = settings or SdsEdgeSettings()
        self.channels = Channels(
            backbone, self.settings, connector_id=connector_id, permit=permit, chance=chance
        )
        self.metrics = self.channels.metrics
        self.links = ServedLinks[MemberLink](self.metrics, id, self._on_gone)
        self.unsent = Unsent(self.settings.max_unsent_bytes)
        self._budgets = edge_budgets(self.settings)

    async def run(self) -> None:
        """Store what peers send and run the timers, until cancelled."""
        await self.channels.run()

    async def serve(self, connection: Connection) -> None:
        """Serve SDS on an accepted connection until it ends; never raises because of the remote."""
        budget = self._budgets.begin(connection.peer_id, time.monotonic())
        if budget is None:
            self.links.refuse(connection, CloseCode.OVERLOADED, "too many connections of this key")
            return
        link = MemberLink(connection, self.settings, budget, self.unsent, self._reads_too_slowly)
        self.links.begin(link)
        await self.links.serve(link, lambda link: exchange(link, self.channels))

    def _reads_too_slowly(self, link: MemberLink) -> None:
        self.links.end(link, CloseCode.OVERLOADED, "what happens is not read in time")

    def judge_again(self) -> None:
        """The rules have changed: close connections in channels that they may no longer join."""
        for link in tuple(self.links.open.values()):
            if not all(self.channels.permit(link.remote, channel_id) for channel_id in link.memberships):
                self.links.end(link, CloseCode.REVOKED, "this key is no longer allowed in a channel of it")

    async def finish(self, reason: str) -> None:
        """Close every connection, and wait until all data accepted from them is stored."""
        await self.links.finish(reason)
        await self.channels.staging.drained()

    def _on_gone(self, link: MemberLink) -> None:
        self._budgets.end(link.remote)
        for member in tuple(link.memberships.values()):
            self.channels.leave(member)
        self.channels.asking.gone(link)
        link.gone()


logger = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
# What a message of the job says besides the content: history, filter, ids.
_MAX_CONTENT_BYTES = 512 * 1024
# What asking for a head costs, in ids looked for.
_HEAD_LOOKUPS = 16
_LOOKUPS_AT_ONCE = 32
_LOOKS_PER_TIMEOUT = 4
# A thousand joins in one breath leave most of the event loop's time to others.
_JOINS_APART_S = 0.002


async def exchange(link: MemberLink, channels: Channels) -> LinkEnded:
    """Serve a connection until it ends; returns the close code and reason to send to the remote."""
    ended = LinkEnded(CloseCode.NORMAL)
    try:
        async with asyncio.TaskGroup() as group:
            stream = await link.connection.open_stream(bidirectional=True)
            assert stream.receive is not None, "a bidirectional stream has two directions"
            settings = channels.settings
            link.send(Hello(VERSION, settings.max_frame_bytes, settings.max_channels))
            talk = _Talk(link, channels, group)
            talk.start(_write(link, stream, channels))
            talk.start(_watch_reading(stream, settings.stall_timeout_s))
            await talk.read(stream.receive)
            talk.stop()
    except* TransportError as errors:
        logger.debug("connection of %s: %s", link.name, errors.exceptions[0])
    except* LinkEnded as endings:
        ended = first_ending(endings)
    return ended


async def _write(link: MemberLink, stream: SendStream, channels: Channels) -> None:
    while True:
        await link.wake.wait()
        link.wake.clear()
        while link.outbox:
            data = link.take(channels.settings.write_bytes)
            await stream.write(data)
            channels.metrics.bytes_out += len(data)


async def _watch_reading(stream: SendStream, timeout_s: float) -> None:
    """End a connection whose remote has read nothing for `timeout_s` seconds although data waits for it."""
    acknowledged, since_s = stream.acknowledged, time.monotonic()
    while True:
        await asyncio.sleep(timeout_s / _LOOKS_PER_TIMEOUT)
        now_s = time.monotonic()
        if stream.acknowledged != acknowledged or stream.acknowledged == stream.written:
            acknowledged, since_s = stream.acknowledged, now_s
        elif now_s - since_s >= timeout_s:
            raise LinkEnded(CloseCode.OVERLOADED, "messages are not read in time")


class _Talk:
    """Reads the frames of one connection and acts on them."""

    def __init__(self, link: MemberLink, channels: Channels, group: asyncio.TaskGroup) -> None:
        self._link = link
        self._channels = channels
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that lasts as long as the connection at most."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def stop(self) -> None:
        """Cancel the tasks of the connection, which has ended."""
        for task in self._tasks:
            task.cancel()

    async def read(self, stream: ReceiveStream) -> None:
        """Read frames until the remote ends the stream."""
        channels = self._channels
        reader = FrameReader(channels.settings.max_frame_bytes)
        try:
            while data := await stream.read(_READ_BYTES):
                channels.metrics.bytes_in += len(data)
                await self._paced(self._link.budget.bytes, len(data))
                reader.feed(data)
                while (frame := reader.next()) is not None:
                    await self._paced(self._link.budget.messages, 1)
                    await self._take(frame)
                    # A long run of small frames must not keep others waiting.
                    await asyncio.sleep(0)
            reader.end()
        except FrameError as error:
            channels.metrics.rejects[error.code] += 1
            too_large = isinstance(error, FrameTooLargeError)
            code = CloseCode.TOO_LARGE if too_large else CloseCode.PROTOCOL
            raise LinkEnded(code, f"{error.code}: {error}") from error

    async def _take(self, frame: Frame) -> None:
        match frame:
            case SdsMessage():
                await self._message(frame)
            case Send():
                await self._send(frame)
            case Join():
                await self._paced(self._link.budget.joins, 1)
                self._join(frame)
                await asyncio.sleep(_JOINS_APART_S)
            case Leave():
                await self._leave(frame)
            case Fetch():
                await self._fetch(frame)
            case Fetched():
                if not self._channels.asking.answered(self._link, frame):
                    # It may have been too late for an honest one.
                    self._channels.metrics.rejects["sds.fetch.unasked"] += 1
            case AskHead():
                await self._head(frame)
            case Refused():
                logger.debug("%s refuses: %s", self._link.name, frame.code)
            case _:
                raise FrameKindError(f"{type(frame).__name__} is for the serving side to say")

    def _refuse(self, code: str, reason: str, channel_id: str, token: bytes | None = None) -> None:
        link, channels = self._link, self._channels
        channels.metrics.rejects[code] += 1
        if not link.budget.rejects.take(1, time.monotonic()):
            raise LinkEnded(CloseCode.PROTOCOL, "too much that had to be refused")
        link.send(Refused(code, reason, channel_id, token))

    async def _member(self, channel_id: str, *, hosted: bool) -> Membership | None:
        """Return the membership once it is in force: a client need not wait for the answer to its join."""
        member = self._link.memberships.get(channel_id)
        if member is not None:
            await member.entered.wait()
        if member is None or member.hosted != hosted or not member.following:
            self._refuse("sds.join.missing", "the channel was not joined for this", channel_id)
            return None
        return member

    async def _paced(self, rate: TokenBucket, count: int) -> None:
        """Wait until the key's rate has `count` tokens."""
        wait_s = rate.wait_s(count, time.monotonic())
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    # Joining and leaving.

    def _join(self, frame: Join) -> None:
        refusal = refusal_of(self._link, frame, self._channels)
        if refusal is not None:
            self._refuse(*refusal, frame.channel_id)
            return
        member = Membership(
            self._link,
            frame.channel_id,
            frame.profile,
            frame.participant_id,
            frame.hosted,
            start=self.start,
        )
        self._channels.join(member)
        member.do(enter(member, frame, self._channels))

    async def _leave(self, frame: Leave) -> None:
        member = self._link.memberships.get(frame.channel_id)
        if member is None:
            return
        if frame.final and member.hosted:
            await self._channels.staging.wait_for_capacity(self._link)
            self._channels.staging.add(member.command("leave"), self._link)
        self._channels.leave(member)

    # Speaking.

    async def _message(self, frame: SdsMessage) -> None:
        member = await self._member(frame.channel_id, hosted=False)
        if member is None:
            return
        await self._channels.staging.wait_for_capacity(self._link)
        try:
            message = self._channels.decode(member.profile, frame.wire)
            if message.channel_id != frame.channel_id:
                raise OtherChannelError("the message is of another channel")
            if not await self._channels.may_send(member, message, frame.wire):
                raise OwnedSenderError("the sender id belongs to another key, or to a hosted participant")
        except CulmError as error:
            self._refuse(error.code, str(error), frame.channel_id)
            return
        self._channels.metrics.messages_in[message.kind] += 1
        self._channels.bring(member, self._channels.channel_of(member), message, frame.wire)

    async def _send(self, frame: Send) -> None:
        member = await self._member(frame.channel_id, hosted=True)
        if member is None:
            return
        await self._channels.staging.wait_for_capacity(self._link)
        link, channels = self._link, self._channels

        def accepted() -> None:
            link.send(Accepted(frame.channel_id, frame.token))

        try:
            _check_content(frame.content)
            if not frame.ephemeral:
                channels.metrics.commands_in += 1
                command = SdsCommandRecord(
                    "send",
                    member.profile,
                    member.participant_id,
                    frame.token,
                    frame.content,
                    peer_id=link.remote,
                )
                channels.staging.add(OutgoingRecord(frame.channel_id, command), link, accepted)
                return
            message = Message(
                member.participant_id,
                content_message_id(frame.channel_id, member.participant_id, frame.token, frame.content),
                frame.channel_id,
                content=frame.content,
            )
            channels.metrics.messages_in["ephemeral"] += 1
            channels.bring(
                member, channels.channel_of(member), message, encode(message, member.profile), accepted
            )
        except CulmError as error:
            self._refuse(error.code, str(error), frame.channel_id, frame.token)

    # Asking.

    async def _fetch(self, frame: Fetch) -> None:
        member = await self._member(frame.channel_id, hosted=False)
        if member is None:
            return
        budget = self._link.budget
        if budget.requests >= self._channels.settings.max_requests:
            self._refuse("sds.fetch.too_many", "too many concurrent requests", frame.channel_id)
            return
        await self._paced(budget.lookups, max(1, len(frame.entries)))
        budget.requests += 1
        member.do(self._answer(member, frame)).add_done_callback(lambda _: budget.release_request())

    async def _answer(self, member: Membership, frame: Fetch) -> None:
        link, channels = self._link, self._channels
        channel = channels.channel_of(member)
        # What is found is in memory until it is read: some at a time, of one request of a key.
        async with link.budget.looking_up:
            for start in range(0, max(1, len(frame.entries)), _LOOKUPS_AT_ONCE):
                entries = frame.entries[start : start + _LOOKUPS_AT_ONCE]
                messages = await channels.asking.find(channel, entries, but=link)
                wires = [(message.wire, message.hint) for message in messages]
                last = start + _LOOKUPS_AT_ONCE >= len(frame.entries)
                for part in cut(frame.channel_id, frame.request, wires, more=not last):
                    await link.wait_for_capacity()
                    link.send(part)

    async def _head(self, frame: AskHead) -> None:
        member = await self._member(frame.channel_id, hosted=False)
        if member is not None:
            await self._paced(self._link.budget.lookups, _HEAD_LOOKUPS)
            await self._channels.heads.send(member, self._channels.channel_of(member))


def _check_content(content: bytes) -> None:
    if not content:
        raise EmptyContentError("a message says something")
    if len(content) > _MAX_CONTENT_BYTES:
        raise OversizeError(f"a content of {len(content)} bytes where {_MAX_CONTENT_BYTES} are taken")
