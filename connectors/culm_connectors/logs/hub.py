"""The way into replicated logs at this edge, for what peers of any protocol bring and for what topics bring.

What the hub promises, in this order:

1. *durable*: Kafka has acknowledged the entry on `entries`, or it was read from a topic;
2. *indexed*: it is in the index, in one transaction with the offsets that cover it;
3. *notified*: every protocol that subscribed is given the checked entry, decoded once, and may show it.

So nobody learns of an entry that a kill could take away, and nobody is given one before it can be read.
A protocol's driver knows the hub, never another driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from culm_connectors.logs.index import Commit, IndexWriter
from culm_connectors.logs.index.commit import Offsets
from culm_connectors.logs.publish import Arrival
from culm_connectors.logs.warm_start.claims import Claims
from culm_models.bamboo.checks import SoundEntry
from culm_topics.records import split_log_key


@dataclass(frozen=True, slots=True)
class Stored:
    """What one transaction has put into the index."""

    entries: tuple[SoundEntry, ...]
    fresh: Sequence[SoundEntry]
    """Those of them that remotes did not take for held before, by the word of `blocks`."""
    replacing: tuple[SoundEntry, ...] = ()
    """The first true entry of each log that had taken another branch: what followed there is void."""


class Subscriber(Protocol):
    """Is given what was stored, on the event loop, in the order of the transactions; it must not block."""

    def on_stored(self, stored: Stored) -> None:
        """These are durable and in the index."""
        ...


class Durable(Protocol):
    """Makes what peers bring durable."""

    async def entries(self, arrivals: Sequence[Arrival]) -> None:
        """Return when all of them are. Raises ProduceFailed."""
        ...


class LogHub:
    """The hub of one index. `claims` are the entries that remotes take for held before they are."""

    def __init__(self, durable: Durable, index: IndexWriter, claims: Claims) -> None:
        self._durable = durable
        self._index = index
        self._claims = claims
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Give a subscriber what is stored from now on."""
        self._subscribers.append(subscriber)

    async def store(self, arrivals: Sequence[Arrival], bringer: object = None) -> Sequence[Arrival]:
        """Take what peers bring, in this order; returns what the index could not take.

        That is on `entries` all the same: the truth path judges it. The `bringer`, if it is a subscriber,
        learns it from the return alone. Raises ProduceFailed, IndexDamaged.
        """
        await self._durable.entries(arrivals)
        commit = await self._index.write(
            [arrival.checked for arrival in arrivals], brought_by=[arrival.remote for arrival in arrivals]
        )
        self._notify(commit, bringer)
        lost = {id(checked) for checked in (*commit.conflicts, *commit.gaps)}
        return [arrival for arrival in arrivals if id(arrival.checked) in lost]

    async def take(self, entries: Sequence[SoundEntry], offsets: Offsets, *, truth: bool = False) -> Commit:
        """Take what topics bring, with the offsets that cover it; `truth` may cut back another branch.

        Raises IndexDamaged.
        """
        commit = await self._index.write(entries, offsets, truth=truth)
        self._notify(commit)
        return commit

    def _notify(self, commit: Commit, bringer: object = None) -> None:
        replacing: list[SoundEntry] = []
        for key, _ in commit.truncated:
            log = split_log_key(key)
            replacing += [one for one in commit.stored if one.log == log][:1]
        stored = Stored(commit.stored, self._claims.arrived(commit.stored), tuple(replacing))
        for subscriber in self._subscribers:
            if subscriber is not bringer:
                subscriber.on_stored(stored)
