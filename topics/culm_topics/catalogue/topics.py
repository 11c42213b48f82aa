"""The table of topics, looked up."""

from typing import get_args

from culm_topics.catalogue import registry
from culm_topics.catalogue.registry import CATALOGUE
from culm_topics.topic_spec import Program, TopicSpec


def topic_name(prefix: str, name: str) -> str:
    """The full name of the catalogue's topic `name`."""
    return prefix + spec(name).name


def spec(name: str) -> TopicSpec:
    """The catalogue's entry; `KeyError` when there is none (a programmer's error)."""
    return _BY_NAME[name]


def readers(topic: TopicSpec) -> tuple[Program, ...]:
    """The programs that read a topic; whether jobs do, the table of jobs says too."""
    return _with_jobs(topic.readers, any(topic.name in job.reads for job in registry.JOBS))


def writers(topic: TopicSpec) -> tuple[Program, ...]:
    """The programs that write a topic; whether jobs do, the table of jobs says."""
    return _with_jobs(topic.writers, any(topic.name in job.writes for job in registry.JOBS))


def _with_jobs(named: tuple[Program, ...], of_a_job: bool) -> tuple[Program, ...]:
    among = {*named, "job"} if of_a_job else {*named}
    return tuple(program for program in get_args(Program) if program in among)


_BY_NAME = {entry.name: entry for entry in CATALOGUE}
assert len(_BY_NAME) == len(CATALOGUE), "a topic is in the catalogue twice"
