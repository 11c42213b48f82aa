"""The table of topics: each room's own list, one behind the other."""

from typing import get_args

from culm_topics.catalogue import jobs
from culm_topics.catalogue.spec import Program, TopicSpec
from culm_topics.logs.catalogue import LOGS
from culm_topics.p2panda.catalogue import P2PANDA
from culm_topics.sds.catalogue import SDS

CATALOGUE: tuple[TopicSpec, ...] = (*P2PANDA, *LOGS, *SDS)


def topic_name(prefix: str, name: str) -> str:
    """The full name of the catalogue's topic `name`."""
    return prefix + spec(name).name


def spec(name: str) -> TopicSpec:
    """The catalogue's entry; `KeyError` when there is none (a programmer's error)."""
    return _BY_NAME[name]


def readers(topic: TopicSpec) -> tuple[Program, ...]:
    """The programs that read a topic; whether jobs do, the table of jobs says too."""
    return _with_jobs(topic.readers, any(topic.name in job.reads for job in jobs.JOBS))


def writers(topic: TopicSpec) -> tuple[Program, ...]:
    """The programs that write a topic; whether jobs do, the table of jobs says."""
    return _with_jobs(topic.writers, any(topic.name in job.writes for job in jobs.JOBS))


def _with_jobs(named: tuple[Program, ...], of_a_job: bool) -> tuple[Program, ...]:
    among = {*named, "job"} if of_a_job else {*named}
    return tuple(program for program in get_args(Program) if program in among)


_BY_NAME = {entry.name: entry for entry in CATALOGUE}
assert len(_BY_NAME) == len(CATALOGUE), "a topic is in the catalogue twice"
