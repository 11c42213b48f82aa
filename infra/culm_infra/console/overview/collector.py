"""Polls every target on its own, and the topics in a thread; publishes the overview for all browsers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from culm_infra.console.overview.reading import NoReading
from culm_infra.console.overview.snapshots import OverviewSnapshots
from culm_infra.console.overview.target_state import TargetState
from culm_infra.console.overview.targets import Target, TargetList
from culm_infra.console.overview.topics import TopicPoller
from culm_models.errors import CulmError
from culm_topics.kafka.clients import KafkaSettings

logger = logging.getLogger(__name__)

PUBLISH_S: Final = 2.0
TIMEOUT_S: Final = 3.0
"""Time for one request to a target."""
_LOOK_S: Final = 2.0
_TOGETHER_S: Final = 0.1
"""Changes within this time are published together."""
_FORGET_S: Final = 600.0
"""Time for which a process that has ended in good order is shown if settings do not name it."""


class Collector:
    """One collector for all browsers. `snapshots` has the latest overview."""

    def __init__(self, targets: TargetList, kafka: KafkaSettings, *, timeout_s: float = TIMEOUT_S) -> None:
        self.snapshots = OverviewSnapshots()
        self._targets = targets
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._states: dict[str, TargetState] = {}
        self._present: frozenset[str] = frozenset()
        self._topic_watch = TopicPoller(kafka)
        self._topics: Sequence[dict[str, Any]] = ()
        self._kafka_state = {"state": "unknown", "detail": "no answer yet"}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_topics())
            group.create_task(self._publish())
            while True:
                targets = await asyncio.to_thread(self._targets.now)
                self._present = frozenset(targets)
                for text, target in targets.items():
                    if text not in self._states:
                        state = self._states[text] = TargetState(target)
                        group.create_task(self._follow(target, state))
                await asyncio.sleep(_LOOK_S)

    async def _follow(self, target: Target, state: TargetState) -> None:
        """Poll one target, until it is forgotten."""
        while not self._is_forgotten(state):
            try:
                reading = await target.read(self._timeout_s)
            except NoReading as failure:
                is_changed = state.fail(failure, time.monotonic())
            except Exception:
                # Whatever a target answers, the other ones go on.
                if state.is_answering:
                    logger.exception("reading %s failed", target.text)
                is_changed = state.fail(
                    NoReading("unknown", "the console failed at its answer"), time.monotonic()
                )
            else:
                is_changed = state.take(reading, time.monotonic())
            if is_changed:
                logger.info("%s is %s", target.text, state.state)
                self._changed.set()
            await asyncio.sleep(target.interval_s)
        del self._states[target.text]

    def _is_forgotten(self, state: TargetState) -> bool:
        """Whether a process has ended in good order long ago, and settings do not name it."""
        since_s = state.down_since_s
        is_long_ago = since_s is not None and time.monotonic() - since_s > _FORGET_S
        return is_long_ago and state.target.text not in self._present

    async def _follow_topics(self) -> None:
        while True:
            before = self._kafka_state["state"]
            try:
                self._topics = await asyncio.to_thread(self._topic_watch.read)
                self._kafka_state = {"state": "ok", "detail": ""}
            except CulmError as error:
                self._kafka_state = {"state": "down", "detail": str(error)}
            except Exception:
                logger.exception("reading the topics failed")
                self._kafka_state = {"state": "unknown", "detail": "the console failed at reading the topics"}
            if self._kafka_state["state"] != before:
                logger.info("Kafka at %s is %s", self._kafka.bootstrap, self._kafka_state["state"])
                self._changed.set()
            await asyncio.sleep(PUBLISH_S)

    async def _publish(self) -> None:
        while True:
            await self.snapshots.publish(json.dumps(self.document(), separators=(",", ":")).encode())
            try:
                async with asyncio.timeout(PUBLISH_S):
                    await self._changed.wait()
                await asyncio.sleep(_TOGETHER_S)
            except TimeoutError:
                pass
            self._changed.clear()

    def document(self) -> dict[str, Any]:
        """Return the overview as the API has it."""
        states = sorted(self._states.values(), key=lambda state: state.order)
        return {
            "time_ms": int(time.time() * 1000),
            "prefix": self._kafka.prefix,
            "bootstrap": self._kafka.bootstrap,
            "kafka": self._kafka_state,
            "edges": [state.document() for state in states if state.kind == "edge"],
            "jobs": [state.document() for state in states if state.kind == "job"],
            "topics": list(self._topics),
        }
