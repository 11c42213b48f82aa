"""What others rely on by name, as sorted lines of text: metrics, topics, access rights, jobs, error codes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import Metric

from culm_models.errors import CulmError
from culm_streaming.metrics import JobMetrics
from culm_streaming.progress import BatchProgress
from culm_topics.catalogue.registry import CATALOGUE, JOBS
from culm_topics.kafka.acls import acls
from culm_topics.kafka.clients import KafkaSettings
from tests.support.freeze import frozen

PACKAGES = ("culm_models", "culm_topics", "culm_streaming", "culm_connectors", "culm_infra")
_OF_PYTHON = ("process_", "python_")
_HISTOGRAM = ("le",)
_PROGRAMS = ("__main__", "culm_streaming.daemon")
"""They change the process that imports them."""


def metrics(families: Iterable[Metric]) -> list[str]:
    """Name as it is scraped, type and labels of each metric but those of Python's process."""
    return sorted(
        f"{_scraped(family)} {family.type} {','.join(_labels(family)) or '-'}"
        for family in families
        if not family.name.startswith(_OF_PYTHON)
    )


def _scraped(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> tuple[str, ...]:
    named = getattr(family, "_labelnames", None)
    if named is not None:
        return tuple(named)
    labels = {label for sample in family.samples for label in sample.labels}
    return tuple(sorted(labels.difference(_HISTOGRAM)))


def job_metrics() -> list[str]:
    """The metrics of the streaming jobs."""
    jobs = JobMetrics()
    jobs.record(BatchProgress("logs", 1, 1, 1, 1, {}, 1, 1))
    jobs.set_up("logs", is_up=True)
    jobs.set_progress("logs")
    jobs.add_failure("logs", "kafka")
    jobs.set_lag("logs", {("culm.entries", 0): 1})
    jobs.set_waiting("logs", 1, 1)
    jobs.set_expired("logs", 1)
    jobs.set_checkpoint("logs", 1)
    jobs.set_health(kafka_up=True, ready=True)
    return metrics(jobs.registry.collect())


def topics() -> list[str]:
    """Every topic, as it is created."""
    return [line for topic in CATALOGUE for line in (topic.name, *_details(topic))]


def _details(topic: Any) -> Iterator[str]:
    yield f"  partitions: {topic.partitions}{' by default' if topic.partitioned else ' always'}"
    for name in sorted(topic.config):
        yield f"  {name}={topic.config[name]}"


def rights() -> list[str]:
    """Every access right."""
    rules = acls(KafkaSettings(bootstrap="none"))
    return [f"{rule.program} {rule.resource} {rule.name} {rule.pattern} {rule.operation}" for rule in rules]


def jobs() -> list[str]:
    """Every job by the name of its query and folder, with its topics."""
    return [
        f"{job.name}{'' if job.stateful else ' without state'}: "
        f"{', '.join(job.reads)} -> {', '.join(job.writes)}"
        for job in JOBS
    ]


def codes() -> list[str]:
    """The codes of all errors: they stand on `rejected`, in metrics and in what commands print."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith(_PROGRAMS):
                importlib.import_module(module.name)
    ours = (kind for kind in _below(CulmError) if kind.__module__.startswith(PACKAGES))
    return sorted({str(kind.code) for kind in ours})


def _below(kind: type[CulmError]) -> Iterator[type[CulmError]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


LISTS = {"metrics-of-jobs": job_metrics, "topics": topics, "acls": rights, "jobs": jobs}
CODES = "error-codes"


def accept() -> None:
    """Accept all lists as they are now."""
    for name, read in LISTS.items():
        frozen.keep_list(name, read())
    frozen.keep_list(CODES, codes())
