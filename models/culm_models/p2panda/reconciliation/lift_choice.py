"""Which lift makes a session's fingerprints ("replication", 2.1: `lift_type`).

Every fingerprint names its lift and carries its salt: the side that begins chooses, the other one takes the
choice from the first fingerprint that comes, or refuses. Nothing is said about it beside that.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from culm_models import lifts
from culm_models.lifts import Lift, LiftError
from culm_models.p2panda.errors import SessionError
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.wire.messages import Offer
from culm_models.reconciliation.messages import Fingerprint, ReconciliationMessage


class LiftRefusedError(SessionError, code="p2panda.session.lift"):
    """The remote's fingerprints are of a lift that is not taken here."""


class LiftChangedError(SessionError, code="p2panda.session.lift_changed"):
    """A fingerprint is of another lift or salt than those before it."""


@dataclass(frozen=True, slots=True)
class LiftChoice:
    """A lift with the salt of this session, empty for a lift that takes none."""

    lift: Lift
    salt: bytes = b""

    def check(self, messages: Iterable[ReconciliationMessage]) -> None:
        """Raise `LiftChangedError` unless all fingerprints are of this choice."""
        prefix = self.lift.prefix(self.salt)
        size = len(prefix) + self.lift.value_bytes
        for message in messages:
            if type(message) is Fingerprint:
                data = message.fingerprint
                if len(data) != size or not data.startswith(prefix):
                    raise LiftChangedError(f"a fingerprint that is not of {self.lift.name} and its salt")


def choose(settings: PeerSettings, offer: Offer | None) -> Lift:
    """The lift for a session of ours: the preferred one, or else the first that the remote takes."""
    preferred = lifts.by_name(settings.lift)
    if offer is None or preferred.code in offer.lifts:
        return preferred
    for name in settings.lifts:
        if lifts.by_name(name).code in offer.lifts:
            return lifts.by_name(name)
    return preferred


def first_named(messages: Iterable[ReconciliationMessage], settings: PeerSettings) -> LiftChoice | None:
    """What the first fingerprint among these names; None where there is none. Raises `LiftRefusedError`."""
    for message in messages:
        if type(message) is Fingerprint:
            try:
                named = lifts.read_fingerprint(message.fingerprint)
            except LiftError as error:
                raise LiftRefusedError(str(error)) from error
            if named.lift.name not in settings.lifts:
                raise LiftRefusedError(f"fingerprints of {named.lift.name} are not taken here")
            return LiftChoice(named.lift, named.salt)
    return None
