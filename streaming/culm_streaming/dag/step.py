"""The second stage: new rows become records of `dag.heads`, `dag.order`, `dag.published`, `rejected`."""

from culm_models.dag.validation_rules import ValidationRules
from culm_streaming.dag.replicas import Replicas
from culm_streaming.dag.rows import Ready, ReplicaRows
from culm_streaming.dag.settings import DagLayout
from culm_streaming.dag.state import NO_TOKEN, BatchLog
from culm_streaming.stateful.job_state import JobState


class CachedReplicas:
    """Cache of a process: the result as of a token, so that it need not read all batches again."""

    def __init__(self) -> None:
        self.token = NO_TOKEN
        self.verdict = b""
        self.replicas: Replicas | None = None


def step(
    store: JobState,
    rows: ReplicaRows,
    verdict: ValidationRules,
    layout: DagLayout,
    remembered: CachedReplicas | None = None,
) -> list[Ready]:
    """Process a batch; returns the records to write, which never depend on the cache."""
    remembered = remembered or CachedReplicas()
    log = BatchLog(store, verdict.digest, layout.batch_bytes)
    replicas = _replicas_as_of(log, verdict, remembered)
    # If anything fails from here on, the cached state belongs to no token.
    remembered.replicas = None
    new, records = replicas.take(rows)
    if new:
        log.append(new.pack())
    remembered.replicas, remembered.token, remembered.verdict = replicas, log.token, verdict.digest
    return rows.ready + records


def _replicas_as_of(log: BatchLog, verdict: ValidationRules, remembered: CachedReplicas) -> Replicas:
    """Return the state as of the log's end, starting from the cached state."""
    if remembered.replicas is not None and remembered.verdict == verdict.digest:
        behind = log.behind(remembered.token)
        if behind is not None:
            for batch in behind:
                remembered.replicas.take(ReplicaRows.unpack([batch]))
            return remembered.replicas
    replicas = Replicas(verdict)
    for batch in log.behind(NO_TOKEN) or ():
        replicas.take(ReplicaRows.unpack([batch]))
    return replicas
