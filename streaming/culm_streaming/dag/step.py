"""The second stage: what is new becomes records of `dag.heads`, `dag.order`, `dag.published`, `rejected`."""

from culm_models.dag.verdict import VerdictSettings
from culm_streaming.dag.replicas import Replicas
from culm_streaming.dag.rows import Ready, ReplicaRows
from culm_streaming.dag.settings import DagLayout
from culm_streaming.dag.state import NO_TOKEN, BatchLog
from culm_streaming.stateful.job_state import JobState


class Remembered:
    """What a process knows as of a token, so that it need not read all that ever came again."""

    def __init__(self) -> None:
        self.token = NO_TOKEN
        self.verdict = b""
        self.replicas: Replicas | None = None


def step(
    store: JobState,
    rows: ReplicaRows,
    verdict: VerdictSettings,
    layout: DagLayout,
    remembered: Remembered | None = None,
) -> list[Ready]:
    """Take a batch; the records that it comes to. What a process remembers never changes them."""
    remembered = remembered or Remembered()
    log = BatchLog(store, verdict.digest, layout.batch_bytes)
    replicas = _replicas_as_of(log, verdict, remembered)
    # Whatever fails from here on: what is remembered is of no token.
    remembered.replicas = None
    new, records = replicas.take(rows)
    if new:
        log.append(new.pack())
    remembered.replicas, remembered.token, remembered.verdict = replicas, log.token, verdict.digest
    return rows.ready + records


def _replicas_as_of(log: BatchLog, verdict: VerdictSettings, remembered: Remembered) -> Replicas:
    """All that the log says, from what is remembered on."""
    if remembered.replicas is not None and remembered.verdict == verdict.digest:
        behind = log.behind(remembered.token)
        if behind is not None:
            for one in behind:
                remembered.replicas.take(ReplicaRows.unpack([one]))
            return remembered.replicas
    replicas = Replicas(verdict)
    for one in log.behind(NO_TOKEN) or ():
        replicas.take(ReplicaRows.unpack([one]))
    return replicas
