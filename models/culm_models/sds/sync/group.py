"""The participants of a channel, as far as they have spoken: how many there are, and who spoke lately."""

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

_COUNTED: Final = 1_024
_RECENT: Final = 32
_HASH_BYTES: Final = 8
_RANGE: Final = 1 << (8 * _HASH_BYTES)


class GroupSize:
    """Counts distinct senders, up to `most`, in bounded memory.

    Of the hashes of all senders the smallest 1,024 are kept: up to so many the count is exact, beyond it
    follows from how densely they lie, within some percent.
    """

    __slots__ = ("_hashes", "_last", "_most", "_seen")

    def __init__(self, most: int, hashes: Iterable[int] = ()) -> None:
        self._most = most
        # Known not to change anything if it comes again.
        self._last: str | None = None
        self._hashes = sorted(hashes)
        self._seen = set(self._hashes)

    def add(self, sender_id: str) -> None:
        """This sender has spoken."""
        if sender_id == self._last:
            return
        self._last = sender_id
        number = _hash(sender_id)
        if number in self._seen or (len(self._hashes) == _COUNTED and number > self._hashes[-1]):
            return
        if len(self._hashes) == _COUNTED:
            self._seen.remove(self._hashes.pop())
        self._hashes.insert(bisect_left(self._hashes, number), number)
        self._seen.add(number)

    def count(self) -> int:
        """How many there are: exact to 1,024."""
        if len(self._hashes) < _COUNTED:
            return min(len(self._hashes), self._most)
        return min(max(_COUNTED, (_COUNTED - 1) * _RANGE // self._hashes[-1]), self._most)

    def hashes(self) -> list[int]:
        """What a new one is made of, to go on counting."""
        return list(self._hashes)


class RecentSenders:
    """The last 32 distinct senders, this side's own among them.

    All who hear the same know the same ones. So they agree, without a word, on who answers a message: the one
    whose hash is nearest to that of the message.
    """

    __slots__ = ("_last", "_senders")

    def __init__(self, senders: Iterable[tuple[int, bool]] = ()) -> None:
        # By hash, and whether this side hosts it; the one that has been silent for longest is the first.
        self._senders = dict(senders)
        self._last: str | None = None

    def add(self, sender_id: str, *, own: bool) -> None:
        """This sender has spoken."""
        if sender_id == self._last:
            return
        self._last = sender_id
        number = _hash(sender_id)
        self._senders.pop(number, None)
        self._senders[number] = own
        if len(self._senders) > _RECENT:
            del self._senders[next(iter(self._senders))]

    def nearest_is_own(self, message_id: str, writer_id: str) -> bool | None:
        """Whether this side hosts the sender, other than the writer, that is nearest to the message.

        None where no other sender is known.
        """
        writer, place = _hash(writer_id), _hash(message_id)
        others = [number for number in self._senders if number != writer]
        return self._senders[min(others, key=place.__xor__)] if others else None

    def items(self) -> list[tuple[int, bool]]:
        """What a new one is made of."""
        return list(self._senders.items())


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_HASH_BYTES).digest(), "big")
