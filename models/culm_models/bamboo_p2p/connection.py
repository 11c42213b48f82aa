"""One end of a connection: bytes of two channels and the time go in, bytes and events come out.

The driver sends the bytes of the control channel immediately, as they must never wait (`take_control`). Data
is produced slot by slot when the driver has capacity for it (`next_data`). A violation of a rule ends the
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.data_channel.receiver import Receiver
from culm_models.bamboo_p2p.data_channel.sender import Sender
from culm_models.bamboo_p2p.errors import BambooP2pError, EvidenceBogus, LimitReached
from culm_models.bamboo_p2p.events import BambooP2pEvent, ConnectionDropped, SetupRead
from culm_models.bamboo_p2p.link import ConnectionState, VerifySignatures
from culm_models.bamboo_p2p.negotiation import Negotiation
from culm_models.bamboo_p2p.reactions import Reactions
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import PAUSE_MS, BambooSettings
from culm_models.bamboo_p2p.store import BambooStore
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup, encode_setup
from culm_models.bamboo_p2p.wire.messages import Adjust, Cancel, CancelCode
from culm_models.keys import verify_all


@dataclass(frozen=True)
class Changes:
    """Changes of a store: entries that changed, payloads whose bytes were discarded, and logs that forked."""

    entries: Sequence[tuple[LogKey, int]] = ()
    discarded: Sequence[tuple[LogKey, int]] = ()
    forked: Sequence[LogKey] = ()

    def __bool__(self) -> bool:
        return bool(self.entries or self.discarded or self.forked)

    @cached_property
    def entry_runs(self) -> Sequence[tuple[LogKey, int, int]]:
        """`entries` as runs: log, first and last sequence number of consecutive entries."""
        runs: list[tuple[LogKey, int, int]] = []
        log, first, last = None, 0, 0
        for other, seq_num in self.entries:
            if seq_num != last + 1 or other != log:
                if log is not None:
                    runs.append((log, first, last))
                log, first = other, seq_num
            last = seq_num
        if log is not None:
            runs.append((log, first, last))
        return runs


class BambooConnection:
    """One end of a connection. `is_proactive`: this end opened it and therefore assigns the even ids."""

    def __init__(
        self,
        store: BambooStore,
        settings: BambooSettings,
        *,
        is_proactive: bool,
        now_ms: int,
        verify_signatures: VerifySignatures = verify_all,
    ) -> None:
        self._link = ConnectionState(
            store, settings, parity=0 if is_proactive else 1, verify_signatures=verify_signatures
        )
        self._negotiation = Negotiation(self._link)
        self._receiver = Receiver(self._link, self._negotiation)
        self._sender = Sender(self._link, self._negotiation)
        self._reactions = Reactions(self._link, self._negotiation)
        self._control_in = bytearray()
        self._waits_since: tuple[int, int] | None = None
        """Number of data messages read, and the time (ms) since which the next one waits."""
        self.dropped: BambooP2pError | None = None
        """The error that ended the connection, or None while it is open."""
        self._link.control_out += encode_setup(settings.setup)
        self._negotiation.grant(settings.credit)

    # Calls of the driver.

    def propose(self, wanted: RequestedRange) -> int:
        """Propose a request. Returns its id. Raises `CallRefused` and `RangeViolated`."""
        return self._negotiation.propose(wanted).id

    def adjust(self, message: Adjust) -> None:
        """Adjust or confirm a request. Raises `CallRefused`."""
        self._negotiation.adjust(message.id, message)
        self._reactions.react()

    def cancel(self, request_id: int, code: CancelCode) -> None:
        """Cancel or refuse a request. Raises `CallRefused`."""
        self._negotiation.cancel_by_id(request_id, code)
        self._reactions.react()

    @staticmethod
    def stop_taking(request: Request) -> None:
        """Discard further data of a request. The other end may react to a cancel late or never."""
        request.is_discarding = True

    # Received bytes.

    def receive_control(self, data: bytes, now_ms: int) -> None:
        """Receive bytes of the control channel."""
        self._guarded(lambda: self._read_control(data), now_ms)

    def receive_data(self, data: bytes, now_ms: int) -> None:
        """Receive bytes of the data channel. Empty `data` continues with earlier bytes (`data_is_left`)."""
        self._guarded(lambda: self._receiver.feed(data), now_ms)

    def receive_all_data(self, data: bytes, now_ms: int) -> None:
        """Receive bytes of the data channel and process all of them, without pauses for other connections."""
        self.receive_data(data, now_ms)
        while self.data_is_left and self.dropped is None:
            self.receive_data(b"", now_ms)

    def tick(self, now_ms: int) -> None:
        """Check timeouts. Data that waits too long for its control message ends the connection (R7, R9)."""
        self._guarded(lambda: None, now_ms)

    @property
    def data_waits(self) -> bool:
        """Whether data waits for a control message. The driver then stops reading the data channel."""
        return self._receiver.is_waiting

    @property
    def data_is_left(self) -> bool:
        """Whether received data is left to be processed. `receive_data` continues with it."""
        return self._receiver.is_left

    # Bytes to send.

    def take_control(self) -> bytes:
        """Take the bytes for the control channel."""
        taken = bytes(self._link.control_out)
        self._link.control_out.clear()
        return taken

    @property
    def control_waiting(self) -> int:
        """Number of bytes for the control channel that have not been taken yet."""
        return len(self._link.control_out)

    @property
    def data_is_due(self) -> bool:
        """Whether `next_data` may return bytes."""
        return self.dropped is None and self._sender.has_data()

    def next_data(self) -> bytes:
        """Return the bytes of one slot for the data channel; empty if there is nothing to send now.

        The call can produce control messages, so the driver calls `take_control` after it.
        """
        if self.dropped is not None:
            return b""
        data = self._sender.next_data()
        self._reactions.react()
        return data

    def take_events(self) -> list[BambooP2pEvent]:
        """Return the events since the last call."""
        taken, self._link.events = self._link.events, []
        return taken

    # Queries.

    @property
    def requests(self) -> list[Request]:
        """All requests that are not freed, oldest first."""
        return sorted(self._link.requests, key=lambda request: request.order)

    def requests_for(self, log: LogKey) -> tuple[Request, ...]:
        """Return the requests for a log that are not freed."""
        return self._link.requests.of_log(log)

    @property
    def credit(self) -> int:
        """Number of proposals that this end may still send."""
        return self._link.credit

    @property
    def granted(self) -> int:
        """Number of proposals that the other end may still send."""
        return self._link.granted

    # Changes of the store, of any origin.

    def take_changes(self) -> Changes:
        """Return what this connection has added to the store or discarded since the last call."""
        link = self._link
        taken = Changes(link.changed, link.discarded, link.forked)
        link.changed, link.discarded, link.forked = [], [], []
        return taken

    def on_store_changed(self, changes: Changes) -> None:
        """Handle changes of the store: recompute what to send and recheck data that was sent unverified."""
        if self.dropped is not None:
            return
        table, store = self._link.requests, self._link.store
        for log in changes.forked:
            proof = store.fork_proof(log)
            for request in table.of_log(log):
                if proof is not None and not request.cancel_sent and not request.is_parked:
                    self._negotiation.cancel(request, Cancel(request.id, CancelCode.FORKED, entries=proof))
        for log, seq_num in changes.discarded:
            for request in table.of_log(log):
                trace = request.unverified
                if trace is not None and trace.seq_num == seq_num:
                    request.apology_due = True
                    self._link.wake(request)
        for log, first, last in changes.entry_runs:
            end_of_log = store.end_of_log(log)
            for request in table.of_log(log):
                if (
                    end_of_log is not None
                    and first <= end_of_log <= last
                    and end_of_log < request.proposal.start
                    and not request.is_parked
                ):
                    ended = Cancel(request.id, CancelCode.END_OF_LOG, seq_num=end_of_log)
                    self._negotiation.cancel(request, ended)
                if request.scanned:
                    index = request.sequence.first_from(first)
                    if index < request.scanned and request.sequence.piece(index).seq_num <= last:
                        request.scanned = index
                self._link.wake(request)

    def _guarded(self, step: Callable[[], None], now_ms: int) -> None:
        if self.dropped is not None:
            return
        try:
            step()
            self._reactions.react()
            self._check_waiting(now_ms)
        except BambooP2pError as error:
            self.dropped = error.with_traceback(None)
            about = (error.log, error.entries) if isinstance(error, EvidenceBogus) else (None, ())
            self._link.report(ConnectionDropped(error.code, error.number, str(error), *about))

    def _read_control(self, data: bytes) -> None:
        self._control_in += data
        link, at = self._link, 0
        if link.other_setup is None:
            decoded = decode_setup(self._control_in)
            if decoded is None:
                return
            link.other_setup, at = decoded
            link.report(
                SetupRead(link.sends_greedily, link.receives_greedily, link.send_window, link.receive_window)
            )
            for request in link.requests:
                link.wake(request)
        try:
            while (message := decode_control(self._control_in, at, link.flavour)) is not None:
                at = message[1]
                self._negotiation.receive(message[0])
        finally:
            del self._control_in[:at]
        if self._receiver.is_waiting:
            self._receiver.resume()

    def _check_waiting(self, now_ms: int) -> None:
        read = self._receiver.messages_read
        if not self._receiver.is_waiting:
            self._waits_since = None
        elif self._waits_since is None or self._waits_since[0] != read:
            self._waits_since = read, now_ms
        elif now_ms - self._waits_since[1] >= PAUSE_MS:
            raise LimitReached("data waited too long for the control message that it belongs to")
