"""Which sessions serve a wish: a `Have` that fits no message is replaced by mode 1 or by fewer schemas."""

from collections.abc import Sequence

from culm_models.p2panda import schema_parts, session_errors
from culm_models.p2panda.auto_sync import AutoSync
from culm_models.p2panda.messages import MODE_LOG_HEIGHT, MODE_SET_RECONCILIATION
from culm_models.p2panda.offers import Offer
from culm_models.p2panda.peer_state import PeerState


def fitting(
    peer: PeerState,
    remote: bytes,
    auto: AutoSync,
    offer: Offer | None,
    mode: int,
    wanted: tuple[str, ...],
) -> list[tuple[int, tuple[str, ...]]]:
    """Modes and schemas of the sessions that serve this wish; `auto` and `offer` are the remote's.

    Raises `HaveTooLargeError`.
    """
    if mode != MODE_LOG_HEIGHT:
        return [(mode, wanted)]
    split = schema_parts.split(peer.store, wanted, peer.settings.max_message_bytes)
    requests = [(mode, part) for part in split.parts]
    if split.parts == (wanted,):
        return requests
    if auto.can_have(MODE_SET_RECONCILIATION, offer):
        return [(MODE_SET_RECONCILIATION, wanted)]
    if split.too_large:
        if auto.can_try(MODE_SET_RECONCILIATION, offer):
            return [*requests, (MODE_SET_RECONCILIATION, split.too_large)]
        error = too_large(split.too_large)
        if not requests:
            raise error
        peer.events.ignored(remote, error)
    return requests


def too_large(schema_ids: Sequence[str]) -> session_errors.HaveTooLargeError:
    """What is wrong with these schemas, and what would help."""
    return session_errors.HaveTooLargeError(
        f"the heights of all logs of {', '.join(schema_ids)} do not fit one message: "
        "speak set reconciliation on both sides, or allow larger messages"
    )
