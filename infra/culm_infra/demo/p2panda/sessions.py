"""What the demo's peers said until they knew what they lacked: set reconciliation, session by session."""

from __future__ import annotations

from dataclasses import dataclass, field

from culm_models.p2panda.events import Event, Reconciled, SessionStarted


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """One session of mode 1 as its peer counted it: messages of set reconciliation alone, no entries."""

    peer: str
    chapter: str
    schemas: int
    rounds: int
    bytes_sent: int
    bytes_received: int
    differing_logs: int


@dataclass(slots=True)
class SessionBook:
    """Every session that came to an end, under the chapter of its time."""

    chapter: str
    done: list[SessionFigures] = field(default_factory=list)
    _schemas: dict[tuple[str, int], int] = field(default_factory=dict)

    def record(self, peer: str, event: Event) -> None:
        """Take an event of a peer into account; each has one remote, so session ids tell sessions apart."""
        if isinstance(event, SessionStarted):
            self._schemas[peer, event.session_id] = len(event.schema_ids)
        elif isinstance(event, Reconciled):
            self.done.append(
                SessionFigures(
                    peer,
                    self.chapter,
                    self._schemas.get((peer, event.session_id), 0),
                    event.rounds,
                    event.bytes_out,
                    event.bytes_in,
                    event.differing_logs,
                )
            )
