"""Events that a `Peer` reports to its driver, and the bounded queue in which they wait.

Every event names the remote that it concerns and has a stable `kind`.
"""

from collections import Counter, deque
from dataclasses import dataclass

from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.events import ReportedEvent
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire.messages import LogHeight, Offer


@dataclass(frozen=True, slots=True)
class PeerEvent(ReportedEvent):
    """Base class of the events. `remote` is the peer id of the remote that the event concerns."""

    remote: bytes


@dataclass(frozen=True, slots=True)
class Announced(PeerEvent, kind="announced"):
    """The remote's announcement replaced its previous one. `raw` holds the bytes as received.

    `offer` is what the remote offers beyond log height mode. `schema_ids` excludes the schema id that encodes
    the offer.
    """

    schema_ids: tuple[str, ...]
    timestamp: int
    raw: bytes
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class SessionStarted(PeerEvent, kind="session_started"):
    """We requested a session (`local`), or accepted one from the remote."""

    session_id: int
    mode: int
    schema_ids: tuple[str, ...]
    local: bool


@dataclass(frozen=True, slots=True)
class SessionDone(PeerEvent, kind="session_done"):
    """The session is over: both sides sent what they had, or one of them left live mode."""

    session_id: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Live(PeerEvent, kind="live"):
    """Both sides have caught up and the session goes on in live mode."""

    session_id: int
    schema_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionFailed(PeerEvent, kind="session_failed"):
    """The session ended before it was finished."""

    session_id: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class EntryAccepted(PeerEvent, kind="entry_accepted"):
    """An entry of the remote continues its log and is to be stored, or was stored by `receive`."""

    session_id: int
    checked: CheckedOperation


@dataclass(frozen=True, slots=True)
class Duplicate(PeerEvent, kind="duplicate"):
    """The remote sent an entry that is held or staged already."""

    session_id: int
    checked: CheckedOperation


@dataclass(frozen=True, slots=True)
class EntryRejected(PeerEvent, kind="rejected"):
    """An entry was refused. For a fork, `held_hash` is the hash of the entry that stays in its place.

    `blameless`: the remote that sent the entry is not at fault; either its author is, or there was no
    capacity for it.
    """

    session_id: int
    code: str
    message: str
    entry: bytes
    operation: bytes
    held_hash: bytes | None = None
    blameless: bool = False


@dataclass(frozen=True, slots=True)
class Withheld(PeerEvent, kind="withheld"):
    """The remote is missing an entry that is too large for any message, so the rest of this log is not sent.

    Reported once for each log of a link.
    """

    code: str
    message: str
    public_key: bytes
    log_id: int
    seq_num: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class Ignored(PeerEvent, kind="ignored"):
    """A message from the remote, or a local request, that was ignored without effect on running sessions."""

    code: str
    message: str
    session_id: int | None = None


@dataclass(frozen=True, slots=True)
class Heights(PeerEvent, kind="heights"):
    """Heights that the remote has shown to hold since the last such event.

    They come from `Have`, from set reconciliation and from entries.
    """

    log_heights: tuple[LogHeight, ...]


@dataclass(frozen=True, slots=True)
class Reconciled(PeerEvent, kind="reconciled"):
    """Set reconciliation of a session of mode 1 has ended; gives its cost and its result.

    `rounds` counts the batches of both sides; `messages_…` and `bytes_…` count set reconciliation only.
    `differing_logs` counts the logs that are longer on one side. Our entries of these logs are being sent.
    """

    session_id: int
    rounds: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    differing_logs: int


@dataclass(frozen=True, slots=True)
class LinkFailed(PeerEvent, kind="link_failed"):
    """The remote's stream can no longer be read. Everything else from it is ignored until it reconnects."""

    code: str
    message: str


class EventQueue:
    """Events on their way to the driver. The heights that remotes have shown are collected for each log.

    Holds at most `max_events`; beyond that, the oldest are dropped and counted in `dropped`.
    """

    def __init__(self, max_events: int) -> None:
        self._events: deque[PeerEvent] = deque(maxlen=max_events)
        self._shown: dict[bytes, dict[LogKey, int]] = {}
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        """Number of occurrences of each event kind, and of each code of ignored, refused or failed items."""

    def add(self, event: PeerEvent) -> None:
        """Queue an event."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)
        self.counts[event.kind] += 1

    def ignored(self, remote: bytes, error: CulmError, session_id: int | None = None) -> None:
        """Queue an `Ignored` event for this error."""
        self.counts[error.code] += 1
        self.add(Ignored(remote, error.code, str(error), session_id))

    def shown(self, remote: bytes, public_key: bytes, log_id: int, seq_num: int) -> None:
        """Note that a remote holds an entry, and all entries below it, because logs have no gaps."""
        heights = self._shown.get(remote)
        if heights is None:
            heights = self._shown[remote] = {}
        key = (public_key, log_id)
        if heights.get(key, 0) < seq_num:
            heights[key] = seq_num

    def take(self) -> list[PeerEvent]:
        """Return all events since the last call in order, the collected heights last."""
        taken = list(self._events)
        self._events.clear()
        if self._shown:
            for remote, heights in self._shown.items():
                log_heights = tuple((*key, seq_num) for key, seq_num in heights.items())
                taken.append(Heights(remote, log_heights))
                self.counts[Heights.kind] += 1
            self._shown = {}
        return taken
