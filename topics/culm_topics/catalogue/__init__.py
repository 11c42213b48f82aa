"""The catalogue of Kafka topics, as data. To add a topic, add one entry to `p2panda` or `sds`.

Settings, creation, checking, access rights and docs/topics.md all follow from this table.

- `spec`: what is said of a topic, and the topic properties of each clean-up.
- `p2panda`: the replicated logs and what belongs to them; `sds`: the channels of SDS.
"""

from culm_topics.catalogue.p2panda import P2PANDA
from culm_topics.catalogue.sds import SDS
from culm_topics.catalogue.spec import (
    DEFAULT_PARTITIONS,
    DEFAULT_PREFIX,
    MAX_MESSAGE_BYTES,
    Cleanup,
    Program,
    TopicSpec,
)

__all__ = [
    "CATALOGUE",
    "DEFAULT_PARTITIONS",
    "DEFAULT_PREFIX",
    "MAX_MESSAGE_BYTES",
    "Cleanup",
    "Program",
    "TopicSpec",
    "spec",
    "topic_name",
]

CATALOGUE: tuple[TopicSpec, ...] = (*P2PANDA, *SDS)


def topic_name(prefix: str, name: str) -> str:
    """The full name of the catalogue's topic `name`."""
    return prefix + spec(name).name


def spec(name: str) -> TopicSpec:
    """The catalogue's entry; `KeyError` when there is none (a programmer's error)."""
    return _BY_NAME[name]


_BY_NAME = {entry.name: entry for entry in CATALOGUE}
assert len(_BY_NAME) == len(CATALOGUE), "a topic is in the catalogue twice"
