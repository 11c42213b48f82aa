"""What waits in the state of a job for records that have not come: a metric, and one warning if it lasts."""

import logging
import time
from typing import Final

from culm_streaming.metrics import JobMetrics
from culm_streaming.progress import BatchProgress, Waiting

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 60.0


class WaitingWatch:
    """What one job has told so far of what waits, by shard. `waits` says what that is and what to do."""

    def __init__(self, job: str, waits: str, metrics: JobMetrics) -> None:
        self._job = job
        self._waits = waits
        self._metrics = metrics
        self._shards: dict[int, Waiting] = {}
        self._is_warned = False

    @property
    def count(self) -> int:
        """How much waits now."""
        return self._sum()[0]

    def take(self, progress: BatchProgress) -> None:
        """Take in what a micro-batch told."""
        self._shards.update(progress.waiting)
        count, since_ms = self._sum()
        self._metrics.set_waiting(self._job, count, since_ms)
        if self._is_warned and not count:
            self._is_warned = False
            logger.info("nothing waits any more", extra={"job": self._job})

    def look(self, *, patience_s: float = PATIENCE_SECONDS) -> None:
        """Warn once if something has waited for longer than that, until nothing waits again."""
        count, since_ms = self._sum()
        waited_s = time.time() - since_ms / 1000
        if count and not self._is_warned and waited_s >= patience_s:
            self._is_warned = True
            logger.warning(
                "%d %s", count, self._waits, extra={"job": self._job, "since_s": round(waited_s, 1)}
            )

    def _sum(self) -> tuple[int, int]:
        waiting = [one for one in self._shards.values() if one.count]
        return sum(one.count for one in waiting), min((one.since_ms for one in waiting), default=0)
