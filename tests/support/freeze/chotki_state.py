"""The state that a program keeps of Chotki: two epochs in a file, and what comes next of its topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from culm_topics.chotki.objects import Objects
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.state_reader import EpochStaging
from tests.streaming.chotki.test_chotki_epochs import story
from tests.support.chotki.job import ChotkiJob, ChotkiTopics
from tests.support.chotki.state import StateLog

NAME = "chotki-state"
ORIGIN = b"frozen topic"
KEPT_EPOCHS, EPOCHS = 2, 3


def topic(epochs: int) -> StateLog:
    """`chotki.state` up to an epoch."""
    topics = ChotkiTopics()
    job, log = ChotkiJob(topics), StateLog()
    for number in range(epochs):
        story(topics, number + 1)
        log.write(job.run())
    return log


def make(folder: Path) -> None:
    """A file that has read the first epochs."""
    file = StateFile(folder, ORIGIN)
    topic(KEPT_EPOCHS).read(EpochStaging(3, file))
    file.close()


def read(folder: Path) -> dict[str, Any]:
    """What a program has that goes on from the file to the topic's end."""
    file = StateFile(folder, ORIGIN)
    staging = EpochStaging(3, file)
    epoch, offsets = staging.state.epoch, dict(staging.state.offsets)
    log = topic(EPOCHS)
    for number, records in enumerate(log.partitions):
        log.partitions[number] = [record for record in records if record.offset >= offsets[number]]
    log.read(staging)
    view = Objects(file)
    contents = {
        "epoch": epoch,
        "offsets": {str(number): offset for number, offset in offsets.items()},
        "store": staging.state.store(),
        "objects": {str(entity.id): [str(entity.class_id), dict(entity.fields)] for entity in view.objects()},
        "classes": {str(entity.id): list(entity.fields) for entity in view.classes()},
    }
    file.close()
    return contents
