"""Whether the jobs are ready, in words."""


class Health:
    """The reasons why the process is not ready; written by whoever runs the jobs, read by any thread."""

    def __init__(self) -> None:
        self._reasons: tuple[str, ...] = ("starting",)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the jobs are not ready, a line each: Kafka does not answer, a query waits for its next start or
        stands still though there is something to read. Empty when they are."""
        return self._reasons

    def set_reasons(self, *reasons: str) -> None:
        """Replace all reasons."""
        self._reasons = reasons
