"""Tells Kafka how far each job has read: `culm_topics.kafka.job_positions`, whenever that has changed."""

import logging
import time
from collections.abc import Mapping
from threading import Lock
from typing import Final

from culm_streaming.progress import Place
from culm_topics.errors import KafkaFailure
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.job_positions import publish_positions

logger = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 3_600.0
"""Brokers forget what a group without members has committed, by default after a week."""


class PositionsPublisher:
    """Publishes the positions that it is told; every method may be called from any thread."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._positions: dict[str, dict[Place, int]] = {}
        self._published: dict[str, tuple[dict[Place, int], float]] = {}
        self._failed = False
        self._noting, self._publishing = Lock(), Lock()

    def note(self, job: str, positions: Mapping[Place, int]) -> None:
        """Note up to where all output of a job is written."""
        with self._noting:
            self._positions[job] = self._positions.get(job, {}) | dict(positions)

    def publish(self) -> None:
        """Publish what has changed; a failure is logged once in a row, and tried again with the next call."""
        with self._publishing:
            self._publish()

    def _publish(self) -> None:
        with self._noting:
            noted = dict(self._positions)
        for job, positions in noted.items():
            now_s = time.monotonic()
            before, published_s = self._published.get(job, ({}, 0.0))
            if not positions or (positions == before and now_s - published_s < _AGAIN_SECONDS):
                continue
            try:
                publish_positions(self._kafka, job, positions)
            except KafkaFailure as error:
                if not self._failed:
                    logger.warning("connectors cannot see how far jobs have read: %s", error)
                self._failed = True
                return
            self._published[job] = positions, now_s
            self._failed = False
