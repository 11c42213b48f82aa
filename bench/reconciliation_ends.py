"""Both ends of one reconciliation in one process: a session's state machine, its codec and its stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias, cast

from bench.reconciliation_sets import Pair
from culm_connectors.logs.ranges import RangeSnapshot
from culm_models.bamboo.log_store import LogInfo, LogKey, LogKind
from culm_models.lifts import DEFAULT, Lift
from culm_models.p2panda.reconciliation.set_reconciliation import Answer, LiftChoice, SetReconciliation
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.codec import MessageStream
from culm_models.p2panda.wire.messages import Offer
from culm_models.p2panda.wire.reconciliation_codec import encode_many
from culm_models.reconciliation.messages import ReconciliationMessage

_PIECE_BYTES = 64 * 1024
_SCHEMA = "bench_0020" + "00" * 32
_LOG_INFO = LogInfo(_SCHEMA, None, end_of_log=False)

Way: TypeAlias = Literal["default", "latency", "compact"]
"""Settings of the ends; `compact`: the default, and both offer the compact form."""

WAYS: dict[Way, PeerSettings] = {
    "default": PeerSettings(compact_form=False),
    "latency": PeerSettings(compact_form=False).for_latency(),
    "compact": PeerSettings(compact_form=True),
}


@dataclass(frozen=True)
class Run:
    """One reconciliation: seconds of both ends together, bytes and batches in both directions."""

    seconds: float
    cpu_seconds: float
    bytes: int
    batches: int
    messages: int


@dataclass(frozen=True)
class Point:
    """One pair of sets, reconciled one way: median seconds of both ends, bytes and batches both ways.

    `cpu_seconds` is the processor time, which is more reliable on a busy machine.
    """

    shape: str
    size: int
    differing: int
    way: Way
    seconds: float
    cpu_seconds: float
    bytes: int
    batches: int
    messages: int

    @property
    def bytes_per_difference(self) -> float:
        return self.bytes / max(self.differing, 1)


class _Store:
    """The store of a session, backed by one snapshot: entries are not part of this measurement."""

    def __init__(self, snapshot: RangeSnapshot) -> None:
        self._snapshot = snapshot

    def sync_range(self, schema_ids: Iterable[str], lift: Lift, salt: bytes = b"") -> RangeSnapshot:
        return self._snapshot

    def height(self, public_key: bytes, log_id: int) -> int:
        # A session asks about logs that its snapshot is missing, in case they have arrived since; here they
        # have not.
        return 0

    def log_info(self, public_key: bytes, log_id: int) -> LogInfo | None:
        return _LOG_INFO

    def log_kinds(self, logs: Sequence[LogKey]) -> list[LogKind | None]:
        return [(_SCHEMA, False)] * len(logs)

    def entry_hash(self, public_key: bytes, log_id: int, seq_num: int) -> bytes | None:
        return None


class _End:
    def __init__(self, snapshot: RangeSnapshot, settings: PeerSettings) -> None:
        offer = Offer(frozenset((0, 1)), frozenset((DEFAULT.code,)), compact=settings.compact_form)
        choice = LiftChoice(DEFAULT)
        store = cast(LogStore, _Store(snapshot))
        self.session = SetReconciliation(store, 0, (_SCHEMA,), settings, choice, offer)
        self.stream = MessageStream()
        self.missing = 0
        self.messages = 0

    def encode(self, messages: list[ReconciliationMessage]) -> bytes:
        self.messages += len(messages)
        return encode_many(messages, self.session.form)

    def hear(self, data: bytes) -> Iterator[bytes]:
        """Yield the answers, piece by piece."""
        for at in range(0, len(data), _PIECE_BYTES):
            if self.session.done:
                return
            messages: list[ReconciliationMessage] = self.stream.feed(data[at : at + _PIECE_BYTES])  # type: ignore[assignment]
            if messages:
                answer = self.session.receive(messages)
                self._note(answer)
                yield self.encode(answer.messages)

    def finish(self) -> None:
        self._note(self.session.finish(max_equal_heights=0))

    def _note(self, answer: Answer) -> None:
        self.missing += len(answer.entries) + sum(1 for _ in answer.rest or ())


def reconcile(pair: Pair, a: RangeSnapshot, b: RangeSnapshot, way: Way) -> Run:
    """Reconcile two sides; the first begins. Checks that both find everything that the other is missing."""
    settings = WAYS[way]
    started, cpu_started = time.perf_counter(), time.process_time()
    ends = [_End(a, settings), _End(b, settings)]
    data = ends[0].encode(ends[0].session.start())
    total = 0
    for turn in count(1):
        total += len(data)
        data = b"".join(ends[turn % 2].hear(data))
        if not data:
            break
    for end in ends:
        end.finish()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    missing = sum(end.missing for end in ends)
    assert missing == pair.differing, f"{missing} differences found of {pair.differing}"
    assert all(end.session.done for end in ends)
    return Run(seconds, cpu_seconds, total, turn, sum(end.messages for end in ends))
