"""Detects missing executors: on a cluster without a free worker, a query silently waits forever."""

import logging
import time
from typing import Final

from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 15.0
_REPEAT_SECONDS: Final = 60.0


class ExecutorWatch:
    """Detects tasks that wait although there is no executor to run them."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._is_local = str(self._context.master).startswith("local")
        self._missing_since_s: float | None = None
        self._logged_s: float | None = None

    def missing(self) -> str | None:
        """Return why no worker runs the waiting tasks, once this has lasted; None while all is well.

        Logs it as well, once a minute.
        """
        now_s = time.monotonic()
        if self._is_local or not self._tasks_wait():
            self._missing_since_s = self._logged_s = None
            return None
        self._missing_since_s = self._missing_since_s or now_s
        if now_s - self._missing_since_s < _PATIENCE_SECONDS:
            return None
        reason = (
            f"no worker of {self._context.master} takes the job's tasks: has it workers, have they as much "
            "memory and as many cores free as spark.executor.memory and spark.executor.cores ask for?"
        )
        if self._logged_s is None or now_s - self._logged_s >= _REPEAT_SECONDS:
            logger.warning(reason, extra={"waiting_s": round(now_s - self._missing_since_s)})
            self._logged_s = now_s
        return reason

    def _tasks_wait(self) -> bool:
        # The driver counts as an executor.
        executors = int(self._context._jsc.sc().getExecutorMemoryStatus().size()) - 1
        return executors < 1 and len(self._context.statusTracker().getActiveStageIds()) > 0
