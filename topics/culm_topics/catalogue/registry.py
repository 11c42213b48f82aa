"""The two tables of all protocols, written out: the topics and the jobs of each protocol."""

from culm_topics.chotki.catalogue import CHOTKI, CHOTKI_JOBS
from culm_topics.dag.catalogue import DAG, DAG_JOBS
from culm_topics.logs.catalogue import LOG_JOBS, LOGS
from culm_topics.p2panda.catalogue import P2PANDA, P2PANDA_JOBS
from culm_topics.sds.catalogue import SDS, SDS_JOBS
from culm_topics.topic_spec import JobSpec, TopicSpec

OWNERS: dict[str, tuple[TopicSpec, ...]] = {
    "p2panda": P2PANDA,
    "logs": LOGS,
    "sds": SDS,
    "chotki": CHOTKI,
    "dag": DAG,
}
"""Every topic by the part of the catalogue that owns it; p2panda and Bamboo share those of `logs`."""

OWNERS_USED: dict[str, tuple[str, ...]] = {
    "p2panda": ("p2panda", "logs"),
    "bamboo": ("logs",),
    "sds": ("sds",),
    "chotki": ("chotki",),
    "dag": ("dag",),
}
"""The owners whose topics each protocol uses; all protocols also use `rejected`."""

CATALOGUE: tuple[TopicSpec, ...] = (*P2PANDA, *LOGS, *SDS, *CHOTKI, *DAG)

JOBS: tuple[JobSpec, ...] = (*LOG_JOBS, *P2PANDA_JOBS, *SDS_JOBS, *CHOTKI_JOBS, *DAG_JOBS)
