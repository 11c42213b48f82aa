"""The table of streaming jobs: a job is a package and one entry here. Light to import: no Spark.

`culm job`, the run itself, access rights and docs/topics.md read this table.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job: `name` is also that of its Spark query and of its checkpoint's folder.

    `reads` and `writes` are topics by their names in the catalogue, `load` is the `module:attribute` that
    runs it. Jobs of a `group` run together by its name. `stateful` jobs have a state store of a fixed layout.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    load: str
    doc: str
    group: str = "all"
    stateful: bool = True


JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="logs",
        reads=("entries",),
        writes=("logs", "rejected"),
        load="culm_streaming.logs.job:JOB",
        doc="checks entries and puts each log in order, without gaps or repeats",
    ),
    JobSpec(
        name="version-vectors",
        reads=("logs", "receipts"),
        writes=("version-vectors", "rejected"),
        load="culm_streaming.version_vectors:JOB",
        doc="keeps the highest number of each log that each peer holds",
    ),
    JobSpec(
        name="blocks",
        reads=("logs", "receipts"),
        writes=("blocks", "block-vectors", "rejected"),
        load="culm_streaming.blocks.job:JOB",
        doc="keeps heights and fingerprints of the logs by schema and block of public keys",
    ),
    JobSpec(
        name="sds",
        reads=("sds.in", "sds.commands"),
        writes=("sds.messages", "sds.out", "sds.events", "sds.fetch", "sds.acks", "sds.owners", "rejected"),
        load="culm_streaming.sds.job:JOB",
        doc="keeps channels of SDS, their store and their hosted participants",
        group="sds",
    ),
    JobSpec(
        name="sds-index",
        reads=("sds.messages",),
        writes=("sds.index", "rejected"),
        load="culm_streaming.sds_index:JOB",
        doc="says where in the store of SDS each message lies",
        group="sds",
        stateful=False,
    ),
)

DEFAULT_GROUP: Final = "all"


def job_named(name: str) -> JobSpec:
    """The table's entry; `KeyError` when there is none."""
    for job in JOBS:
        if job.name == name:
            return job
    raise KeyError(name)


def groups() -> tuple[str, ...]:
    """Every group, in the table's order."""
    return tuple(dict.fromkeys(job.group for job in JOBS))


def jobs_of(which: str) -> tuple[str, ...]:
    """The names of a group's jobs, or of the one job of that name; `KeyError` when there is neither."""
    return tuple(job.name for job in JOBS if job.group == which) or (job_named(which).name,)
