"""State that both channels of a connection share at one end: requests, credit, events, bytes to send."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import BambooP2pEvent, EntryVerified, ForkFound, PayloadVerified
from culm_models.bamboo_p2p.requests.proposals import RefusedKey
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.requests.request_table import MetadataAtOther, RequestTable
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.store import BambooStore, ForkProof, HeldEntry
from culm_models.bamboo_p2p.wire.control import encode_control
from culm_models.bamboo_p2p.wire.messages import Cancel, ControlMessage, Setup
from culm_models.keys import verify_all

VerifySignatures = Callable[[bytes, Sequence[bytes]], Sequence[bool]]
"""Verifies, like `keys.verify_all`, signatures (each followed by its data) of a key.

Returns their validity.
"""


class ConnectionState:
    """The state of one connection. `parity` is that of the ids this end assigns: 0 proactive, 1 reactive."""

    def __init__(
        self,
        store: BambooStore,
        settings: BambooSettings,
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
        """Number of proposals that this end may still send."""
        self.granted = 0
        """Number of proposals that the other end may still send."""
        self.control_out = bytearray()
        self.events: list[BambooP2pEvent] = []
        self.other_setup: Setup | None = None
        self.refused: set[RefusedKey] = set()
        """Proposals that the other end will not accept again on this connection (128)."""
        self.ready: deque[Request] = deque()
        """Requests that may have something to send on the data channel, each at most once."""
        self._queued: set[int] = set()
        self.orphaned_ends: deque[int] = deque()
        """Own lost proposals that were cancelled before; their last data message has yet to be sent."""
        self.metadata_at_other = MetadataAtOther(self.requests)
        self.changed: list[tuple[LogKey, int]] = []
        """Entries whose metadata or payload was stored or discarded; requests for them are re-evaluated."""
        self.forked: list[LogKey] = []
        """Logs that were found to be forked; their requests end."""
        self.discarded: list[tuple[LogKey, int]] = []
        """Payloads whose unverified bytes were discarded; connections that forwarded them apologise."""
        self.again: list[tuple[Request, bool]] = []
        """Requests to propose again, and whether to start without their offset."""
        self.freed: list[Request] = []
        """Own requests that were freed, so that others may be proposed."""
        self.answers: list[tuple[Request, Cancel]] = []
        """Received cancels of own requests, to which this end reacts (3.8)."""

    def send(self, message: ControlMessage) -> None:
        """Send a message on the control channel."""
        self.control_out += encode_control(message)

    def report(self, event: BambooP2pEvent) -> None:
        """Report an event to the driver."""
        self.events.append(event)

    def wake(self, request: Request) -> None:
        """Queue a request that may have something to send."""
        if id(request) not in self._queued:
            self._queued.add(id(request))
            self.ready.append(request)

    def next_ready(self) -> Request | None:
        """Take the next queued request, or None if there is none."""
        if not self.ready:
            return None
        request = self.ready.popleft()
        self._queued.discard(id(request))
        return request

    def other_holds_metadata(self, log: LogKey, start: int, end: int) -> None:
        """Record that the other end holds the metadata from `start` up to, not including, `end`."""
        self.metadata_at_other.add(log, start, end)
        for request in self.requests.of_log(log):
            if request.proposal.payload_only and request.may_send:
                self.wake(request)

    # Changes of the store, which are reported to the requests of all connections.

    def keep_entry(self, request: Request, log_entry: HeldEntry) -> None:
        """Store a verified entry unless it is held already."""
        seq_num = log_entry.entry.seq_num
        if self.store.entry(request.log, seq_num) is None:
            self.store.put_entry(request.log, log_entry)
            self.report(EntryVerified(request.id, request.log, seq_num))
            self._changed(request.log, seq_num)

    def _changed(self, log: LogKey, seq_num: int) -> None:
        # An entry and the parts of its payload arrive in sequence; one notification is enough.
        if not self.changed or self.changed[-1] != (log, seq_num):
            self.changed.append((log, seq_num))

    def keep_unverified(self, request: Request, seq_num: int, offset: int, data: bytes) -> None:
        """Store unverified bytes of a payload."""
        self.store.put_unverified(request.log, seq_num, offset, data)
        self._changed(request.log, seq_num)

    def verify_payload(self, request: Request, seq_num: int) -> bool:
        """Verify a payload from its parts. Returns whether they are complete and valid.

        Valid parts become the held payload; invalid parts are discarded.
        """
        is_valid = self.store.verify_payload(request.log, seq_num)
        if is_valid:
            self.report(PayloadVerified(request.id, request.log, seq_num))
        else:
            self.discarded.append((request.log, seq_num))
        self._changed(request.log, seq_num)
        return is_valid

    def discard_unverified(self, request: Request, seq_num: int) -> None:
        """Discard the unverified bytes of a payload."""
        self.store.discard_unverified(request.log, seq_num)
        self.discarded.append((request.log, seq_num))
        self._changed(request.log, seq_num)

    def propose_again(self, request: Request, *, from_beginning: bool) -> None:
        """Have a request proposed again, based on what is held at that time (R49, R55)."""
        self.again.append((request, from_beginning))

    def found_fork(self, request: Request, proof: ForkProof) -> None:
        """Store the proof that a log is forked. The first proof is reported."""
        if self.store.fork_proof(request.log) is None:
            self.store.put_fork_proof(request.log, proof)
            self.report(ForkFound(request.id, request.log))
            self.forked.append(request.log)

    # Modes and windows in force (R2); False and 0 until the other end's setup has been received.

    @property
    def sends_greedily(self) -> bool:
        """Whether this end may send unverified data."""
        other = self.other_setup
        return other is not None and self.settings.sends_greedily and other.accepts_greedy

    @property
    def receives_greedily(self) -> bool:
        """Whether the other end may send unverified data."""
        other = self.other_setup
        return other is not None and self.settings.accepts_greedy and other.sends_greedily

    @property
    def send_window(self) -> int:
        """Compression window of outgoing data, in bytes."""
        return min(self.settings.send_window, self.other_setup.receive_window) if self.other_setup else 0

    @property
    def receive_window(self) -> int:
        """Compression window of incoming data, in bytes."""
        return min(self.settings.receive_window, self.other_setup.send_window) if self.other_setup else 0
