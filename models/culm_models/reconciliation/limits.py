"""What one remote can make a session do, at most (rbsr.md, 4.5)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one session. Beyond any of them it ends with a typed error."""

    slack_batches: int = 8
    """Batches of both sides beyond 2 + 2 * ceil(log of our item count to the base of our division)."""
    messages_per_batch: int = 1 << 21
    messages_per_item: int = 4
    """Or so many in one batch for each item that we hold, where that is more: all may differ."""
    items_per_run: int = 1 << 20
    """Items of one range that the remote shows."""
    slack_items: int = 4_096
    """Items that we show beyond twice what we hold."""
