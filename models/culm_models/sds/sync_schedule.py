"""When a sync message is due (sds.md, Periodic Sync Message), at a rate flat in the size of the group.

A sync waits for a floor of quiet in the channel plus an even spread that grows with the number of distinct
senders, so that of n participants about one speaks per floor, however many they are. It stops after three
own syncs without news, or after hearing many of others', and begins again with the next news. Content that
nobody has acknowledged yet halves the wait, and further messages do not put that off.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from culm_models.sds.acknowledgement import Filter, HashPair
from culm_models.sds.backoff import Draw


@dataclass(frozen=True, slots=True)
class SyncRule:
    """`fruitless`: own syncs without news before silence; `fruitless_heard`: the same of syncs of others."""

    floor_ms: int = 30_000
    spread_ms: int = 30_000
    fruitless: int = 3
    fruitless_heard: int = 16


class SyncSchedule:
    """One schedule a channel, for all participants that this side hosts."""

    def __init__(self, rule: SyncRule, draw: Draw) -> None:
        raise NotImplementedError

    def seen(
        self,
        sender_id: str,
        now_ms: int,
        *,
        news: bool,
        history_ids: Iterable[str] = (),
        filter: Filter | None = None,
    ) -> None:
        """A message of another participant was received (content or sync, no ephemeral, no own).

        `news`: it brought content, an acknowledgement or the id of a missing message, or its filter lacks
        something that we have, so that its sender has something to learn from us.
        """
        raise NotImplementedError

    def owe(self, message_id: str, pair: HashPair, now_ms: int) -> None:
        """New content of another participant was taken, which nobody has acknowledged yet (after `seen`)."""
        raise NotImplementedError

    def repeated(self, message_id: str, now_ms: int) -> None:
        """Content that we have came again: its sender has not heard of us. The next sync comes early."""
        raise NotImplementedError

    def names(self) -> tuple[str, ...]:
        """The repeated ids, at most 16: the next sync names them before its regular causal history."""
        raise NotImplementedError

    def sent(self, now_ms: int, *, sync: bool, named: Iterable[str] = ()) -> None:
        """A participant of ours has sent content or a sync that named `named` in its causal history."""
        raise NotImplementedError

    def rest(self) -> None:
        """There is nothing to sync (an empty log): silence until there is news."""
        raise NotImplementedError

    def due(self, now_ms: int) -> bool:
        """Whether a sync is to be sent now."""
        raise NotImplementedError

    def next_due_ms(self) -> int | None:
        """When the next sync is due; None while the schedule is silent."""
        raise NotImplementedError

    def senders(self) -> int:
        """How many distinct senders there are: exact to 1,024, then an estimate within some percent."""
        raise NotImplementedError

    def pack(self) -> bytes:
        """All of it as bytes, equal for equal histories."""
        raise NotImplementedError

    @classmethod
    def unpack(cls, data: bytes, rule: SyncRule, draw: Draw) -> "SyncSchedule":
        """What `pack` wrote."""
        raise NotImplementedError
