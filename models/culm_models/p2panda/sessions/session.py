"""The state machine of one session: either mode, then live mode (specification "replication", section 2).

    initiator                     responder
    SyncRequest  ------------->
                 <-------------   Have
    Have, Entry*, SyncDone  --->
                 <-------------   Entry*, SyncDone

    SyncRequest, opening  ---->
                 <-------------   a batch, Entry*
    a batch, Entry*  --------->
                     … until both are done: Entry*, SyncDone

In log height mode, each side plans what it sends when the other's `Have` arrives; in set reconciliation, it
sends as it learns. It sends one `SyncDone` after all of it; the remote's may arrive earlier. When both have
sent theirs, the session continues in live mode if both messages say so, and is closed otherwise. In live
mode, a single `SyncDone(false)` of either side closes the session. It is not answered, because the session's
id may name a new session by the time an answer would arrive.

Entries that reach the store after the plan was made (or the snapshot of the sync range was taken), and before
live mode, are remembered by log.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final

from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import BacklinkUnknownError, SkiplinkUnknownError
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.p2panda.errors import HaveRepeatedError
from culm_models.p2panda.reconciliation import ranges
from culm_models.p2panda.reconciliation.ranges import EntryRange, highest, in_order, in_slices, missing
from culm_models.p2panda.reconciliation.set_reconciliation import SetReconciliation
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import LogHeight, Message, SyncDone
from culm_models.reconciliation.messages import ReconciliationMessage

_MAX_REFUSED_LOGS: Final = 1_024


class SessionState(Enum):
    """State of a session."""

    PENDING = "pending"
    """We sent a request and have received no answer yet."""
    ESTABLISHED = "established"
    LIVE = "live"
    CLOSED = "closed"


class Session:
    """A session with one remote; `local` if we requested it."""

    __slots__ = (
        "_contradictory",
        "_received",
        "_refused",
        "_unsent",
        "answered_at",
        "bytes_out",
        "has_gap",
        "inbox",
        "last_activity",
        "leaving",
        "local",
        "mid_batch",
        "mode",
        "our_done",
        "planned",
        "reconciled",
        "reconciliation",
        "remote",
        "remote_done",
        "rest",
        "schema_ids",
        "schemas",
        "session_id",
        "state",
        "wants_live",
    )

    def __init__(
        self,
        remote: bytes,
        session_id: int,
        mode: int,
        schema_ids: tuple[str, ...],
        *,
        local: bool,
        now: int,
        wants_live: bool = True,
    ) -> None:
        self.remote = remote
        self.session_id = session_id
        self.mode = mode
        self.schema_ids = schema_ids
        self.schemas = frozenset(schema_ids)
        self.local = local
        self.wants_live = wants_live
        self.state = SessionState.PENDING if local else SessionState.ESTABLISHED
        self.planned = False
        self.reconciliation: SetReconciliation | None = None
        """In mode 1, set from the snapshot of our sync range until both know what the other is missing."""
        self.reconciled = False
        self.rest: Iterator[list[EntryRange]] | None = None
        """Entries that are to be sent and were not queued yet, because they would be too many at once."""
        self.inbox: list[ReconciliationMessage] = []
        """Messages of the remote's batch that were not processed yet."""
        self.answered_at = 0
        """Position in the outgoing queue at which our last batch ends."""
        self.mid_batch = False
        self.bytes_out = 0
        self.our_done: bool | None = None
        self.remote_done: bool | None = None
        self.last_activity = now
        self.leaving = False
        """Whether one of its schemas was unannounced: the session ends before live mode."""
        self.has_gap = False
        """Whether the remote skipped entries of a log; only a new `Have` can tell it what is missing."""
        self._refused: set[LogKey] = set()
        self._contradictory: set[LogKey] = set()
        # Highest sequence number, by log, of entries that we hold and that the remote sent before its `Have`.
        self._received: dict[LogKey, int] = {}
        # First and last sequence number, by log, of stored entries that were not sent.
        self._unsent: dict[LogKey, tuple[int, int]] = {}

    def check_first_have(self) -> None:
        """Raise `HaveRepeatedError` if the remote has sent its `Have` already."""
        if self.planned:
            raise HaveRepeatedError(f"session {self.session_id} has a `Have` already")

    def have_received(
        self, log_heights: tuple[LogHeight, ...], store: LogStore, *, live_mode: bool, at_once: bool
    ) -> tuple[list[Message | EntryRange], tuple[LogHeight, ...]]:
        """Process the remote's `Have`; returns everything to send now, and the remote's known heights.

        The part to send ends with our `SyncDone`.

        If there are too many entries, and they are not to be planned `at_once`, nothing is sent now: they
        become the session's `rest`. The heights are the remote's heights of logs that are held here; all
        other heights that it names are only claims. The caller sends our own `Have`, which the initiator
        sends first. Raises `HaveRepeatedError`.
        """
        self.check_first_have()
        self.planned = True
        own_heights = tuple(store.log_heights(self.schema_ids))
        received_heights = [(*key, seq_num) for key, seq_num in self._received.items()]
        self._received.clear()
        remote_heights = highest([*log_heights, *received_heights])
        missing_ranges = missing(self.session_id, own_heights, remote_heights)
        plan: list[Message | EntryRange] = []
        if at_once or len(missing_ranges) <= ranges.SORTED_AT_ONCE:
            plan += in_order(store, missing_ranges)
            plan.append(self.all_planned(live_mode=live_mode))
        else:
            self.state = SessionState.ESTABLISHED
            self.rest = in_slices(store, self.schema_ids, lambda: missing_ranges)
        known = tuple(
            (public_key, log_id, remote_heights[public_key, log_id])
            for public_key, log_id, _ in own_heights
            if (public_key, log_id) in remote_heights
        )
        return plan, known

    def reconcile(self, reconciliation: SetReconciliation) -> None:
        """Set the reconciliation, whose snapshot excludes all entries that are stored from now on."""
        self.planned = True
        self._received.clear()
        self.reconciliation = reconciliation

    def all_planned(self, *, live_mode: bool) -> SyncDone:
        """Return our `SyncDone`; everything that the remote is missing was planned before it."""
        self.our_done = live_mode and self.wants_live
        self._advance()
        return SyncDone(self.session_id, self.our_done)

    def done_received(self, live_mode: bool) -> None:
        """Process the remote's `SyncDone`: it has sent all it had, or leaves live mode."""
        # A side that has once declined live mode cannot take that back.
        self.remote_done = live_mode and self.remote_done is not False
        if self.state is SessionState.LIVE:
            if not live_mode:
                self.state = SessionState.CLOSED
            return
        self.state = SessionState.ESTABLISHED
        self._advance()

    def _advance(self) -> None:
        if self.our_done is None or self.remote_done is None:
            self.state = SessionState.ESTABLISHED
        elif self.our_done and self.remote_done:
            self.state = SessionState.LIVE
        else:
            self.state = SessionState.CLOSED

    @property
    def is_refused(self) -> bool:
        """Whether the remote refused our request before it sent its heights.

        The remote may still send its `Have`. If it requests a session itself, that one takes the place of
        ours.
        """
        return self.local and not self.planned and self.remote_done is False

    @property
    def has_unsent(self) -> bool:
        """Whether stored entries wait to be sent."""
        return bool(self._unsent)

    def note_stored(self, public_key: bytes, log_id: int, seq_num: int) -> None:
        """Note a stored entry that this session has to send later.

        An entry may be noted again, after entries that follow it, if another remote sent it as well.
        """
        key = (public_key, log_id)
        first, last = self._unsent.get(key, (seq_num, seq_num))
        self._unsent[key] = (min(first, seq_num), max(last, seq_num))

    def note_received(self, public_key: bytes, log_id: int, seq_num: int) -> None:
        """Note that the remote sent an entry that we hold now: it holds this entry and all before it."""
        key = (public_key, log_id)
        if not self.planned:
            self._received[key] = max(seq_num, self._received.get(key, 0))
            return
        unsent = self._unsent.get(key)
        if unsent is None or seq_num < unsent[0]:
            return
        if seq_num >= unsent[1]:
            del self._unsent[key]
        else:
            self._unsent[key] = (seq_num + 1, unsent[1])

    def drop_unsent(self, log: LogKey) -> None:
        """Forget unsent entries of a log that the remote is not sent any more."""
        self._unsent.pop(log, None)

    def note_contradictory(self, log: LogKey) -> None:
        """Note that the remote holds another branch of a log: its entries of the log will not fit here."""
        if len(self._contradictory) < _MAX_REFUSED_LOGS:
            self._contradictory.add(log)

    def is_contradictory(self, log: LogKey) -> bool:
        """Whether the remote may hold another branch of this log; beyond a limit, of any log."""
        return log in self._contradictory or len(self._contradictory) >= _MAX_REFUSED_LOGS

    def note_refused(self, log: LogKey, error: CulmError) -> None:
        """Note a refused entry; entries that follow a refused one are bound to have no predecessor."""
        if isinstance(error, BacklinkUnknownError | SkiplinkUnknownError):
            if log not in self._refused and len(self._refused) < _MAX_REFUSED_LOGS:
                self.has_gap = True
        elif len(self._refused) < _MAX_REFUSED_LOGS:
            self._refused.add(log)

    def note_unreadable(self, entry_bytes: bytes, error: CulmError) -> None:
        """Note an entry that was refused by itself, for the log that its bytes name, if they can be read."""
        try:
            entry = decode_entry(entry_bytes)
        except CulmError:
            return
        self.note_refused((entry.public_key, entry.log_id), error)

    def take_unsent(self) -> list[EntryRange]:
        """Return the stored entries that wait to be sent, as ranges, and forget them."""
        ranges = [EntryRange(self.session_id, *key, *part) for key, part in self._unsent.items()]
        self._unsent.clear()
        return ranges
