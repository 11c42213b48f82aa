"""What a `Peer` tells its driver, and the bounded queue in which it waits.

Every event names the remote concerned and has a stable `kind`.
"""

from collections import Counter, deque
from dataclasses import dataclass

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.events import ReportedEvent
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.messages import LogHeight, Offer


@dataclass(frozen=True, slots=True)
class Event(ReportedEvent):
    """The base: `remote` is the peer id of the remote that it is about."""

    remote: bytes


@dataclass(frozen=True, slots=True)
class Announced(Event, kind="announced"):
    """The remote's announcement has replaced its former one. `raw` holds the bytes as received.

    `offer` is what the remote offers beyond log height mode; `schema_ids` are without the id that tells it.
    """

    schema_ids: tuple[str, ...]
    timestamp: int
    raw: bytes
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class SessionStarted(Event, kind="session_started"):
    """A session was requested by us (`local`) or accepted from the remote."""

    session_id: int
    mode: int
    schema_ids: tuple[str, ...]
    local: bool


@dataclass(frozen=True, slots=True)
class SessionDone(Event, kind="session_done"):
    """The session is over: both sides sent what they had, or one of them left live mode."""

    session_id: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Live(Event, kind="live"):
    """Both sides have caught up and the session goes on in live mode."""

    session_id: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionFailed(Event, kind="session_failed"):
    """The session ended without having finished."""

    session_id: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class EntryAccepted(Event, kind="entry_accepted"):
    """An entry of the remote continues its log and is to be stored, or was stored by `receive`."""

    session_id: int
    checked: CheckedOperation


@dataclass(frozen=True, slots=True)
class Duplicate(Event, kind="duplicate"):
    """The remote sent an entry that is held or staged already."""

    session_id: int
    checked: CheckedOperation


@dataclass(frozen=True, slots=True)
class Rejected(Event, kind="rejected"):
    """An entry was refused; for a fork `held_hash` names the entry that stays in its place.

    `blameless`: the remote that brought it is not at fault: its author is, or there was no room for it.
    """

    session_id: int
    code: str
    message: str
    entry: bytes
    operation: bytes
    held_hash: bytes | None = None
    blameless: bool = False


@dataclass(frozen=True, slots=True)
class Withheld(Event, kind="withheld"):
    """The remote lacks an entry that no message can carry, so it is sent nothing of the log from there on.

    Reported once for each log of a link.
    """

    code: str
    message: str
    public_key: bytes
    log_id: int
    seq_num: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class Ignored(Event, kind="ignored"):
    """A message, or a wish of our own, that was passed over without harm to anything that runs."""

    code: str
    message: str
    session_id: int | None = None


@dataclass(frozen=True, slots=True)
class Heights(Event, kind="heights"):
    """What the remote has shown to hold since the last such event: by `Have`, reconciliation, and entries."""

    log_heights: tuple[LogHeight, ...]


@dataclass(frozen=True, slots=True)
class Reconciled(Event, kind="reconciled"):
    """Set reconciliation of a session of mode 1 has ended: what it took, and what came of it.

    `rounds` are the batches of both sides, `messages_…` and `bytes_…` those of set reconciliation alone.
    `differing_logs` were longer on one side; the entries of ours among them are on their way.
    """

    session_id: int
    rounds: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    differing_logs: int


@dataclass(frozen=True, slots=True)
class LinkFailed(Event, kind="link_failed"):
    """The remote's stream cannot be read on; everything further from it is ignored until it reconnects."""

    code: str
    message: str


class EventQueue:
    """Events on their way to the driver, with what remotes have shown to hold gathered by log.

    Keeps at most `max_events`; the oldest are dropped beyond it, and counted in `dropped`."""

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
