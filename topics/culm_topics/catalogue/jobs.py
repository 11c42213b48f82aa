"""Lookups in the table of streaming jobs. Quick to import: no Spark.

`culm job`, the run itself, access rights and docs/topics.md use it.
"""

from typing import Final

from culm_topics.catalogue import registry
from culm_topics.topic_spec import JobSpec

DEFAULT_GROUP: Final = "all"


def job_named(name: str) -> JobSpec:
    """Return the job's entry in the table. Raises `KeyError` if there is none."""
    for job in registry.JOBS:
        if job.name == name:
            return job
    raise KeyError(name)


def groups() -> tuple[str, ...]:
    """Return all groups, in the table's order."""
    return tuple(dict.fromkeys(job.group for job in registry.JOBS))


def runnable_names() -> tuple[str, ...]:
    """Return the names that `culm job run` accepts, each once: groups, then jobs."""
    return tuple(dict.fromkeys((*groups(), *(job.name for job in registry.JOBS))))


def jobs_of(which: str) -> tuple[str, ...]:
    """Return the names of a group's jobs, or of the job with that name.

    Raises `KeyError` if there is neither.
    """
    return tuple(job.name for job in registry.JOBS if job.group == which) or (job_named(which).name,)
