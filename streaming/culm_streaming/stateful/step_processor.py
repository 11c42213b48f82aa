"""Spark's stateful processor of a job: it declares the job's state at once, and loads the step with the rows.

Whenever a query starts, Spark starts a Python worker without its daemon, beside the driver, which only has to
declare the state variables. Importing the job there, with pandas, PyArrow and Kafka's client, took two thirds
of that worker's time, and Spark waits ten seconds for it. So the step travels as bytes inside the processor,
and this module imports none of them.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from culm_streaming.stateful.job_state import JobState, SparkState, Variable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard for which a step runs.

    `batch_ms` is the start of its micro-batch, the same in every run of it.
    """

    number: int
    state: JobState
    batch_ms: int
    _handle: StatefulProcessorHandle

    def set_timer(self, before_ms: int | None, timer_ms: int | None) -> None:
        """Replace the shard's previous timer."""
        if timer_ms is not None and timer_ms != before_ms:
            # Spark deletes an expired timer by itself, after its handler.
            if before_ms is not None and before_ms > self.batch_ms:
                self._handle.deleteTimer(before_ms)
            self._handle.registerTimer(timer_ms)


class FrameStep(Protocol):
    """A job's step on data frames."""

    def take(self, shard: Shard, frames: "Iterator[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
        """Return the output for all rows of a shard and micro-batch."""

    def fire(self, shard: Shard, expiry_ms: int) -> "Iterator[pd.DataFrame]":
        """Return the output for a timer that expired."""

    def restore(self, shard: Shard, frame: "pd.DataFrame") -> None:
        """Fill a new state from rows of the initial state."""


class StepProcessor(StatefulProcessor):
    """Processor of one stateful operator: its variables, and its pickled step."""

    def __init__(self, variables: Sequence[Variable[Any]], step: FrameStep) -> None:
        self._variables = variables
        self._pickled = cloudpickle.dumps(step)  # type: ignore[no-untyped-call]

    @cached_property
    def _step(self) -> FrameStep:
        return cast("FrameStep", pickle.loads(self._pickled))

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the variables."""
        self._handle = handle
        self._state = SparkState(handle, self._variables)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> "Iterator[pd.DataFrame]":
        """Return the output for the rows of one shard and micro-batch, which come in several frames."""
        return self._step.take(self._shard(key, timerValues), rows)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> "Iterator[pd.DataFrame]":
        """Return the output for an expired timer of one shard."""
        return self._step.fire(self._shard(key, timerValues), expiredTimerInfo.getExpiryTimeInMs())

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        """Fill the state of one shard."""
        self._step.restore(self._shard(key, timerValues), initialState)

    def close(self) -> None:
        """Do nothing: the state is Spark's."""

    def _shard(self, key: Any, timer_values: TimerValues) -> Shard:
        return Shard(int(key[0]), self._state, timer_values.getCurrentProcessingTimeInMs(), self._handle)
