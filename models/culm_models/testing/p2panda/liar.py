"""A remote that ignores all rules: valid messages in any order, damaged ones, forks, noise."""

import random
from collections.abc import Sequence

from culm_models.lifts import LIFTS
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.wire import codec
from culm_models.p2panda.wire.messages import Announce, Have, Message, SyncDone, SyncRequest
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)

_SESSION_IDS = (0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 7, 2**64 - 1)


class Liar:
    """Sends random messages; `entries` are valid entries that it knows, also of its own forked logs."""

    def __init__(
        self, rng: random.Random, schema_ids: Sequence[str], entries: Sequence[CheckedOperation]
    ) -> None:
        self._rng = rng
        self._schema_ids = tuple(schema_ids)
        self._entries = list(entries)
        self._next_entry = 0
        self._opening: list[Message] = []

    def connected(self) -> None:
        """Begin like an ordinary peer, so that some of its entries are processed."""
        mode = self._rng.randrange(2)
        self._opening = [Announce(1, 0, self._schema_ids), SyncRequest(0, mode, self._schema_ids)]
        if mode:
            self._opening += self._batch(0)

    def next_bytes(self) -> bytes:
        """Return the next bytes of its stream."""
        rng = self._rng
        if self._opening:
            return codec.encode(self._opening.pop(0))
        chance = rng.random()
        if chance < 0.01:
            return rng.randbytes(rng.randrange(1, 60))
        if chance < 0.5 and self._entries:
            return self._entry(self._choose())
        if chance < 0.6:
            return b"".join(map(codec.encode, self._batch(self._session_id())))
        data = codec.encode(self._message(), rng.choice(("spec", "aquadoggo")))
        return self._damaged(data) if chance > 0.99 else data

    def _choose(self) -> CheckedOperation:
        """Choose an entry, mostly in order, so that logs grow and forks meet their place."""
        if self._rng.random() < 0.05:
            return self._rng.choice(self._entries)
        self._next_entry = (self._next_entry + 1) % len(self._entries)
        return self._entries[self._next_entry - 1]

    def _session_id(self) -> int:
        return self._rng.choice(_SESSION_IDS)

    def _drawn_schemas(self) -> tuple[str, ...]:
        return tuple(self._rng.sample(self._schema_ids, self._rng.randint(0, len(self._schema_ids))))

    def _message(self) -> Message:
        rng = self._rng
        match rng.randrange(6):
            case 0:
                return Announce(rng.choice((1, 1, 1, 2)), rng.randrange(2**20), self._drawn_schemas())
            case 1 | 2:
                return SyncRequest(self._session_id(), rng.choice((0, 0, 0, 0, 1, 9)), self._drawn_schemas())
            case 3:
                return Have(self._session_id(), tuple(self._height() for _ in range(rng.randrange(4))))
            case 4:
                return SyncDone(self._session_id(), rng.random() < 0.7)
            case _:
                return self._reconciliation()

    def _batch(self, session_id: int) -> list[Message]:
        """Return a batch that is likely to be answered: ranges in order, fingerprints of an existing lift."""
        rng = self._rng
        if rng.random() < 0.1:
            return [EmptySet(session_id, rng.random() < 0.8)]
        bounds = sorted((*self._height()[:2], 0) for _ in range(rng.randint(1, 5)))
        batch: list[Message] = [LowerBound(session_id, bounds[0])]
        for upper in (*bounds[1:], bounds[0]):
            match rng.randrange(5):
                case 0:
                    batch.append(EmptyPayload(session_id, upper))
                case 1:
                    batch += (Payload(session_id, self._height()) for _ in range(rng.randrange(4)))
                    batch.append(Payload(session_id, self._height(), rng.random() < 0.7, upper))
                case 2:
                    batch.append(Done(session_id, upper))
                case _:
                    lift = rng.choice(LIFTS)
                    salt = bytes(lift.salt_bytes)
                    batch.append(Fingerprint(session_id, lift.fingerprint([self._height()], salt), upper))
        return [*batch, Terminal(session_id)]

    def _reconciliation(self) -> Message:
        rng = self._rng
        session_id = self._session_id()
        match rng.randrange(7):
            case 0:
                return EmptySet(session_id, rng.random() < 0.5)
            case 1:
                return LowerBound(session_id, self._height())
            case 2:
                return Payload(
                    session_id, self._height(), *rng.choice(((), (True,), (False, self._height())))
                )
            case 3:
                return EmptyPayload(session_id, self._height())
            case 4:
                return Done(session_id, self._height())
            case 5:
                return Fingerprint(session_id, rng.randbytes(rng.randrange(65)), self._height())
            case _:
                return Terminal(session_id)

    def _height(self) -> tuple[bytes, int, int]:
        if self._entries and self._rng.random() < 0.7:
            checked = self._rng.choice(self._entries)
            return *checked.log, self._rng.choice((1, checked.entry.seq_num, 2**64 - 1))
        return self._rng.randbytes(32), self._rng.randrange(2**64), self._rng.randrange(1, 2**64)

    def _entry(self, checked: CheckedOperation) -> bytes:
        entry, operation = checked.entry_bytes, checked.payload_bytes
        match self._rng.randrange(24):
            case 0:
                entry = self._damaged(entry)
            case 1:
                operation = self._damaged(operation)
            case 2:
                operation = b""
        session_id = 0 if self._rng.random() < 0.95 else self._session_id()
        return codec.encode_entry_message(session_id, entry, operation)

    def _damaged(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data))
        return data[:at] + bytes((data[at] ^ (1 << self._rng.randrange(8)),)) + data[at + 1 :]
