"""Events on their way to the driver: bounded, with what remotes have shown to hold gathered by log."""

from collections import Counter, deque

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.p2panda.events import Event, Heights, Ignored


class EventQueue:
    """Keeps at most `max_events`; the oldest are dropped beyond it, and counted in `dropped`."""

    def __init__(self, max_events: int) -> None:
        self._events: deque[Event] = deque(maxlen=max_events)
        self._shown: dict[bytes, dict[LogKey, int]] = {}
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        """How often each event kind, and each code of what was ignored, refused or failed, occurred."""

    def add(self, event: Event) -> None:
        """Queue an event."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)
        self.counts[event.kind] += 1

    def ignored(self, remote: bytes, error: CulmError, session_id: int | None = None) -> None:
        """Something was passed over."""
        self.counts[error.code] += 1
        self.add(Ignored(remote, error.code, str(error), session_id))

    def shown(self, remote: bytes, public_key: bytes, log_id: int, seq_num: int) -> None:
        """A remote has shown to hold an entry and, logs having no gaps, all before it."""
        heights = self._shown.get(remote)
        if heights is None:
            heights = self._shown[remote] = {}
        key = (public_key, log_id)
        if heights.get(key, 0) < seq_num:
            heights[key] = seq_num

    def take(self) -> list[Event]:
        """Everything since the last call, in order; the gathered heights last."""
        taken = list(self._events)
        self._events.clear()
        if self._shown:
            for remote, heights in self._shown.items():
                log_heights = tuple((*key, seq_num) for key, seq_num in heights.items())
                taken.append(Heights(remote, log_heights))
                self.counts[Heights.kind] += 1
            self._shown = {}
        return taken
