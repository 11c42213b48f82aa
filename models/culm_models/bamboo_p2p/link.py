"""What both channels of one connection share at one end: requests, credit, events, bytes to be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified, ForkFound, PayloadVerified
from culm_models.bamboo_p2p.requests.proposals import RefusedKey
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.requests.request_table import MetadataAtOther, RequestTable
from culm_models.bamboo_p2p.settings import PeerSettings
from culm_models.bamboo_p2p.store import BambooStore, ForkProof, HeldEntry
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.messages import Cancel, ControlMessage, Setup
from culm_models.keys import verify_all

VerifySignatures = Callable[[bytes, Sequence[bytes]], Sequence[bool]]
"""As `keys.verify_all`: of a key, and of signatures with their data behind them, whether they are valid."""


class Link:
    """The state of one connection. `parity` is that of the ids this end gives: 0 proactive, 1 reactive."""

    def __init__(
        self,
        store: BambooStore,
        settings: PeerSettings,
        *,
        parity: int,
        verify_signatures: VerifySignatures = verify_all,
    ) -> None:
        self.store = store
        self.verify_signatures = verify_signatures
        self.flavour: HashFlavour = store.flavour
        self.settings = settings
        self.parity = parity
        self.requests = RequestTable()
        self.credit = 0
        """Proposals that this end may still send."""
        self.granted = 0
        """Proposals that the other end may still send."""
        self.control_out = bytearray()
        self.events: list[BambooP2pEvent] = []
        self.other_setup: Setup | None = None
        self.refused: set[RefusedKey] = set()
        """Proposals that the other end will not hear again (128)."""
        self.ready: deque[Request] = deque()
        """Requests that may have something to send on the data channel; each is in at most once."""
        self._queued: set[int] = set()
        self.orphaned_ends: deque[int] = deque()
        """Own lost proposals that were cancelled before: their last data message is still owed."""
        self.metadata_at_other = MetadataAtOther(self.requests)
        self.changed: list[tuple[LogKey, int]] = []
        """Entries of which something new is here, or was thrown away: who asked for them looks again."""
        self.forked: list[LogKey] = []
        """Logs that turned out to be forked: their requests end."""
        self.discarded: list[tuple[LogKey, int]] = []
        """Payloads whose unverified bytes were forgotten; who passed them on apologises."""
        self.again: list[tuple[Request, bool]] = []
        """Requests to be proposed anew, and whether without their offset."""
        self.freed: list[Request] = []
        """Own requests that were freed, for which another may be proposed."""
        self.answers: list[tuple[Request, Cancel]] = []
        """Cancels of own requests that came, to which this end reacts (3.8)."""

    def send(self, message: ControlMessage) -> None:
        """Put a message on the control channel."""
        self.control_out += encode_control(message)

    def report(self, event: BambooP2pEvent) -> None:
        """Tell the driver."""
        self.events.append(event)

    def wake(self, request: Request) -> None:
        """The request may have something to send."""
        if id(request) not in self._queued:
            self._queued.add(id(request))
            self.ready.append(request)

    def next_ready(self) -> Request | None:
        """Take the request whose turn it is."""
        if not self.ready:
            return None
        request = self.ready.popleft()
        self._queued.discard(id(request))
        return request

    def other_holds_metadata(self, log: LogKey, start: int, end: int) -> None:
        """The other end is known to hold the metadata from `start` up to, without, `end`."""
        self.metadata_at_other.add(log, start, end)
        for request in self.requests.of_log(log):
            if request.proposal.payload_only and request.may_send:
                self.wake(request)

    # What was taken into the store, so that every request of every connection hears of it.

    def keep_entry(self, request: Request, held: HeldEntry) -> None:
        """A verified entry came; it may have been held before."""
        seq_num = held.entry.seq_num
        if self.store.entry(request.log, seq_num) is None:
            self.store.put_entry(request.log, held)
            self.report(EntryVerified(request.id, request.log, seq_num))
            self._changed(request.log, seq_num)

    def _changed(self, log: LogKey, seq_num: int) -> None:
        # An entry and the pieces of its payload come in a row: who looks again needs it once.
        if not self.changed or self.changed[-1] != (log, seq_num):
            self.changed.append((log, seq_num))

    def keep_unverified(self, request: Request, seq_num: int, offset: int, data: bytes) -> None:
        """Bytes of a payload came that nobody has verified."""
        self.store.put_unverified(request.log, seq_num, offset, data)
        self._changed(request.log, seq_num)

    def verify_payload(self, request: Request, seq_num: int) -> bool:
        """Whether the parts of a payload are all of it and right; they are held then, else forgotten."""
        is_valid = self.store.verify_payload(request.log, seq_num)
        if is_valid:
            self.report(PayloadVerified(request.id, request.log, seq_num))
        else:
            self.discarded.append((request.log, seq_num))
        self._changed(request.log, seq_num)
        return is_valid

    def discard_unverified(self, request: Request, seq_num: int) -> None:
        """Forget what came of a payload."""
        self.store.discard_unverified(request.log, seq_num)
        self.discarded.append((request.log, seq_num))
        self._changed(request.log, seq_num)

    def propose_again(self, request: Request, *, from_beginning: bool) -> None:
        """The proposal of a request is to be made anew, from what is held then (R49, R55)."""
        self.again.append((request, from_beginning))

    def found_fork(self, request: Request, proof: ForkProof) -> None:
        """Keep the proof that a log is forked; the first one is reported."""
        if self.store.fork_proof(request.log) is None:
            self.store.put_fork_proof(request.log, proof)
            self.report(ForkFound(request.id, request.log))
            self.forked.append(request.log)

    # The modes and windows in force (R2); False and 0 until the other end's setup is read.

    @property
    def sends_greedily(self) -> bool:
        """Whether unverified data may go out."""
        other = self.other_setup
        return other is not None and self.settings.sends_greedily and other.accepts_greedy

    @property
    def receives_greedily(self) -> bool:
        """Whether unverified data may come."""
        other = self.other_setup
        return other is not None and self.settings.accepts_greedy and other.sends_greedily

    @property
    def send_window(self) -> int:
        """How far back compressed data that goes out may point, in bytes."""
        return min(self.settings.send_window, self.other_setup.receive_window) if self.other_setup else 0

    @property
    def receive_window(self) -> int:
        """How far back compressed data that comes may point, in bytes."""
        return min(self.settings.receive_window, self.other_setup.send_window) if self.other_setup else 0
