"""Fuzz targets: bytes become what a hostile remote says, to the machine alone and to a whole peer.

    python -m tests.models.reconciliation.fuzz machine|peer [libFuzzer's options]

runs one under atheris, where that is installed: no extra of ours has it. The tests run both with hypothesis.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import Any, Final

from culm_models.lifts import DEFAULT
from culm_models.p2panda.events import PeerEvent
from culm_models.p2panda.wire.codec import encode
from culm_models.p2panda.wire.messages import MODE_SET_RECONCILIATION, SyncRequest
from culm_models.p2panda.wire.reconciliation_codec import encode_many
from culm_models.reconciliation import Limits, Reconciler, ReconciliationError, Rule
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    ReconciliationMessage,
    Terminal,
)
from tests.models.reconciliation.sides import Counted
from tests.support.p2panda.logs import SCHEMA, author, make_log
from tests.support.p2panda.peers import HIGH, LOW, MIDDLE, NOW, connect_to, make_peer

_SLACK_ITEMS: Final = 20
_RAW: Final = 9
_LOG = make_log(author("fuzz"), 0, 3)
_KEYS = [bytes([byte]) * 32 for byte in (0, 1, 0xFF)] + [_LOG[0].entry.public_key]


class Input:
    """Numbers out of the bytes that a fuzzer chose; zeros behind their end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def below(self, limit: int) -> int:
        """A number from 0 to below ``limit``, at most 256."""
        self.at += 1
        return self.data[self.at - 1] % limit if self.at <= len(self.data) else 0

    def rest(self, limit: int) -> bytes:
        """Some of the bytes as they are."""
        taken = self.data[self.at : self.at + limit]
        self.at += len(taken)
        return taken

    def __bool__(self) -> bool:
        return self.at < len(self.data)


def message(source: Input, bound: Any, fingerprint: Any) -> ReconciliationMessage:
    """One message; ``bound`` and ``fingerprint`` read theirs from the source."""
    match source.below(9):
        case 0:
            return EmptySet(0, bool(source.below(2)))
        case 1:
            return LowerBound(0, bound())
        case 2:
            return Payload(0, bound())
        case 3 | 4 as kind:
            return Payload(0, bound(), kind == 3, bound())
        case 5:
            return EmptyPayload(0, bound())
        case 6:
            return Done(0, bound())
        case 7:
            return Fingerprint(0, fingerprint(), bound())
    return Terminal(0)


def machine(data: bytes) -> None:
    """Any messages raise typed errors alone, and cost no more than they are worth."""
    source = Input(data)
    own = Counted(range(source.below(13)))
    rules: tuple[Rule, Rule] = ("upstream", "even")
    division = 2 + source.below(4)
    session = Reconciler(
        own,
        rule=rules[source.below(2)],
        threshold=1 + source.below(8),
        division=division,
        absorb=bool(source.below(2)),
        limits=Limits(slack_items=_SLACK_ITEMS),
    )
    if source.below(2):
        session.start()
    heard = 0

    def bound() -> int:
        return source.below(14) - 1

    def fingerprint() -> tuple[int, ...]:
        first = bound()
        return tuple(range(first, first + source.below(4)))

    try:
        while source:
            batch = [message(source, bound, fingerprint) for _ in range(1 + source.below(4))]
            heard += len(batch)
            was_done = session.done
            assert not (session.receive_batch(batch) and was_done)
    except ReconciliationError as error:
        assert type(error) is not ReconciliationError
    assert own.ranges <= (1 + division) * (heard + 1)
    assert own.shown <= 3 * len(own) + _SLACK_ITEMS


def peer(data: bytes) -> list[PeerEvent]:
    """Whatever comes behind a request for mode 1, the peer goes on and talks to others."""
    source = Input(data)
    local = make_peer(HIGH, [_LOG] if source.below(2) else [], modes=(1, 0))
    connect_to(local, LOW)
    local.receive(LOW, encode(SyncRequest(0, MODE_SET_RECONCILIATION, (SCHEMA,))), NOW)

    def bound() -> tuple[bytes, int, int]:
        return _KEYS[source.below(len(_KEYS))], source.below(3), 1 + source.below(5)

    def fingerprint() -> bytes:
        if source.below(4):
            return DEFAULT.prefix() + DEFAULT.value((source.below(3), source.below(3)))
        return source.rest(8)

    while source:
        if source.below(_RAW + 1) == _RAW:
            received = source.rest(1 + source.below(40))
        else:
            received = encode_many(
                [message(source, bound, fingerprint)], "hex" if source.below(2) else "compact"
            )
        local.receive(LOW, received, NOW)
        local.take_outgoing(LOW)
    events = local.take_events()
    connect_to(local, MIDDLE)
    assert MIDDLE in local.remotes
    return events


if __name__ == "__main__":
    atheris: Any = importlib.import_module("atheris")
    target = {"machine": machine, "peer": peer}[sys.argv[1]]
    for name, module in list(sys.modules.items()):
        if name.startswith("culm_models."):
            for value in list(vars(module).values()):
                if inspect.isfunction(value) and value.__module__ == name:
                    atheris.instrument_func(value)
                elif inspect.isclass(value) and value.__module__ == name:
                    for method in vars(value).values():
                        if inspect.isfunction(method):
                            atheris.instrument_func(method)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()
