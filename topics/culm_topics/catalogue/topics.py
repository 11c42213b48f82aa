"""Lookups in the table of topics."""

from collections.abc import Collection
from typing import get_args

from culm_topics.catalogue import registry
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.topic_spec import Program, TopicSpec


def topic_name(prefix: str, name: str) -> str:
    """Return the full name of the catalogue's topic `name`."""
    return prefix + spec(name).name


def spec(name: str) -> TopicSpec:
    """Return the topic's entry in the catalogue.

    Raises `KeyError` if there is none (a programmer's error).
    """
    return _BY_NAME[name]


def owner(topic: TopicSpec) -> str:
    """Return the owner of a topic in the catalogue: a protocol, or `logs`."""
    return next(name for name, topics in registry.OWNERS.items() if topic in topics)


def topics_of(protocols: Collection[str]) -> tuple[TopicSpec, ...]:
    """Return the topics that these protocols use, in the order of the catalogue; without any, all topics."""
    if not protocols:
        return CATALOGUE
    owners = {name for protocol in protocols for name in registry.OWNERS_USED[protocol]}
    return tuple(topic for topic in CATALOGUE if topic.name == "rejected" or owner(topic) in owners)


def readers(topic: TopicSpec) -> tuple[Program, ...]:
    """Return the programs that read a topic, including `job` if a job in the table reads it."""
    return _with_jobs(topic.readers, any(topic.name in job.reads for job in registry.JOBS))


def writers(topic: TopicSpec) -> tuple[Program, ...]:
    """Return the programs that write a topic, including `job` if a job in the table writes it."""
    return _with_jobs(topic.writers, any(topic.name in job.writes for job in registry.JOBS))


def _with_jobs(named: tuple[Program, ...], of_a_job: bool) -> tuple[Program, ...]:
    among = {*named, "job"} if of_a_job else {*named}
    return tuple(program for program in get_args(Program) if program in among)


_BY_NAME = {entry.name: entry for entry in CATALOGUE}
assert len(_BY_NAME) == len(CATALOGUE), "a topic is in the catalogue twice"
