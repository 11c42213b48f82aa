"""What the jobs tell Prometheus. Positions live in Spark's checkpoint, so their lag is told here alone."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from culm_streaming.progress import BatchProgress

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class JobMetrics:
    """The metrics of all jobs of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        job = ("job",)
        self._rows_in = Counter("culm_job_rows_in", "Records read.", job, registry=self.registry)
        self._rows_out = Counter("culm_job_rows_out", "Records written.", job, registry=self.registry)
        self._rejected = Counter("culm_job_rejected", "Records refused.", job, registry=self.registry)
        self._batches = Counter("culm_job_batches", "Micro-batches done.", job, registry=self.registry)
        self._seconds = Histogram(
            "culm_job_batch_seconds", "Time of a micro-batch.", job, registry=self.registry, buckets=_SECONDS
        )
        self._batch_id = Gauge("culm_job_batch_id", "The latest micro-batch.", job, registry=self.registry)
        self._state_rows = Gauge(
            "culm_job_state_rows", "Keys in the state store.", job, registry=self.registry
        )
        self._state_bytes = Gauge(
            "culm_job_state_bytes", "Memory of the state store.", job, registry=self.registry
        )
        self._lag = Gauge(
            "culm_job_lag_records",
            "Records that the latest micro-batch left unread.",
            ("job", "topic", "partition"),
            registry=self.registry,
        )
        self._up = Gauge("culm_job_up", "1 while the job runs.", job, registry=self.registry)

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve the metrics over HTTP; returns the port, which 0 leaves to the system."""
        server, _ = start_http_server(port, addr=host, registry=self.registry)
        return int(server.server_address[1])

    def set_up(self, job: str, *, is_up: bool) -> None:
        """Say whether a job runs."""
        self._up.labels(job).set(1 if is_up else 0)

    def record(self, progress: BatchProgress) -> None:
        """Add one micro-batch."""
        job = progress.job
        self._rows_in.labels(job).inc(progress.rows_in)
        if progress.rows_out is not None:
            self._rows_out.labels(job).inc(progress.rows_out)
        self._rejected.labels(job).inc(progress.rejected)
        self._batches.labels(job).inc()
        self._seconds.labels(job).observe(progress.duration_ms / 1000)
        self._batch_id.labels(job).set(progress.batch_id)
        self._state_rows.labels(job).set(progress.state_rows)
        self._state_bytes.labels(job).set(progress.state_bytes)
        for (topic, partition), lag in progress.lag.items():
            self._lag.labels(job, topic, str(partition)).set(lag)
