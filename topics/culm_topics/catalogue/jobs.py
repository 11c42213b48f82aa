"""The table of streaming jobs, looked up. Light to import: no Spark.

`culm job`, the run itself, access rights and docs/topics.md read it.
"""

from typing import Final

from culm_topics.catalogue import registry
from culm_topics.topic_spec import JobSpec

DEFAULT_GROUP: Final = "all"


def job_named(name: str) -> JobSpec:
    """The table's entry; `KeyError` when there is none."""
    for job in registry.JOBS:
        if job.name == name:
            return job
    raise KeyError(name)


def groups() -> tuple[str, ...]:
    """Every group, in the table's order."""
    return tuple(dict.fromkeys(job.group for job in registry.JOBS))


def runnable_names() -> frozenset[str]:
    """The names that `culm job run` takes: those of jobs and of groups."""
    return frozenset((*groups(), *(job.name for job in registry.JOBS)))


def jobs_of(which: str) -> tuple[str, ...]:
    """The names of a group's jobs, or of the one job of that name; `KeyError` when there is neither."""
    return tuple(job.name for job in registry.JOBS if job.group == which) or (job_named(which).name,)
