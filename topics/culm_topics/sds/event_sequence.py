"""Puts events of channels in the order of their numbers, each once, also after repeated batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from culm_topics.errors import TopicsError
from culm_topics.sds.records import SdsEventRecord

MAX_EARLY_EVENTS = 10_000
"""Limit of early events over all channels; beyond it the oldest hole counts as a gap."""


class EventGap(TopicsError, code="topics.sds.gap"):
    """An event of a channel is missing in `sds.events`."""

    def __init__(self, channel_id: str, missing: int, next_number: int) -> None:
        super().__init__(
            f"channel {channel_id!r}: event {missing} is missing from the topic, but {next_number} is there"
        )
        self.channel_id = channel_id
        self.hint = f"`culm sds tail CHANNEL --from {next_number}` begins after it"


@dataclass(frozen=True, slots=True)
class ChannelEvent:
    """One event, with the position of its record."""

    channel_id: str
    event: SdsEventRecord
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class _Hole:
    deadline_s: float
    events: dict[int, ChannelEvent] = field(default_factory=dict)


class EventSequence:
    """The number that every channel has reached. `now_s` is any clock that only goes forward.

    `after` are numbers that were handed out before. A channel that is not in it begins at 1, or, if `learns`,
    at the first number that arrives. Memory: about 100 bytes per channel.
    """

    def __init__(self, after: Mapping[str, int], *, learns: bool, gap_wait_seconds: float) -> None:
        self.numbers = dict(after)
        """Number of the last event handed out, by channel."""
        self.set_aside: dict[str, EventGap] = {}
        """The channels that wait for a missing event."""
        self._learns = learns
        self._gap_wait_seconds = gap_wait_seconds
        self._holes: dict[str, _Hole] = {}
        self._early = 0

    def skip(self, event: ChannelEvent) -> None:
        """Move the channel to this event without handing it out, unless it is further already."""
        known = self.numbers.get(event.channel_id, 0)
        self.numbers[event.channel_id] = max(known, event.event.number)

    def take(self, event: ChannelEvent, now_s: float) -> list[ChannelEvent]:
        """Accept an event, and return the events that can be handed out now, in order.

        Raises `EventGap` if the limit of early events is exceeded; the channel with the oldest hole is set
        aside.
        """
        channel_id, number = event.channel_id, event.event.number
        known = self.numbers.get(channel_id)
        if known is None:
            known = number - 1 if self._learns else 0
        if number <= known:
            return []
        if number > known + 1:
            if channel_id not in self.set_aside:
                self._keep(event, now_s)
            return []
        self.set_aside.pop(channel_id, None)
        self.numbers[channel_id] = number
        return [event, *self._close(channel_id, now_s)]

    def check(self, now_s: float) -> None:
        """Raise `EventGap` for a hole that has been open for too long.

        Sets its channel aside; one channel per call.
        """
        for channel_id, hole in self._holes.items():
            if now_s >= hole.deadline_s:
                raise self._gap(channel_id)

    def forget(self, channel_id: str) -> None:
        """Let the channel start again with its next event."""
        self.numbers.pop(channel_id, None)
        self.set_aside.pop(channel_id, None)
        self._drop(channel_id)

    @property
    def waits(self) -> bool:
        """Whether an early event is kept."""
        return bool(self._holes)

    def overdue(self, now_s: float) -> bool:
        """Whether a hole has been open for too long."""
        return any(now_s >= hole.deadline_s for hole in self._holes.values())

    def _keep(self, event: ChannelEvent, now_s: float) -> None:
        hole = self._holes.setdefault(event.channel_id, _Hole(now_s + self._gap_wait_seconds))
        if event.event.number not in hole.events:
            hole.events[event.event.number] = event
            self._early += 1
        if self._early > MAX_EARLY_EVENTS:
            oldest = min(self._holes, key=lambda channel_id: self._holes[channel_id].deadline_s)
            raise self._gap(oldest)

    def _close(self, channel_id: str, now_s: float) -> list[ChannelEvent]:
        hole = self._holes.get(channel_id)
        if hole is None:
            return []
        ready: list[ChannelEvent] = []
        while (event := hole.events.pop(self.numbers[channel_id] + 1, None)) is not None:
            self.numbers[channel_id] += 1
            ready.append(event)
        self._early -= len(ready)
        if hole.events:
            hole.deadline_s = now_s + self._gap_wait_seconds
        else:
            del self._holes[channel_id]
        return ready

    def _gap(self, channel_id: str) -> EventGap:
        """Set the channel aside. Returns the error for its gap."""
        gap = EventGap(channel_id, self.numbers.get(channel_id, 0) + 1, min(self._drop(channel_id)))
        self.set_aside[channel_id] = gap
        return gap

    def _drop(self, channel_id: str) -> dict[int, ChannelEvent]:
        """Drop the channel's early events, and return them by number."""
        hole = self._holes.pop(channel_id, None)
        if hole is None:
            return {}
        self._early -= len(hole.events)
        return hole.events
