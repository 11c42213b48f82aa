"""Base class of the events that the protocols' state machines report to their drivers."""

from typing import Any, ClassVar


class ReportedEvent:
    """An event. A subclass names its stable kind: `class Sent(Event, kind="sent")`."""

    __slots__ = ()

    kind: ClassVar[str] = "event"

    def __init_subclass__(cls, *, kind: str | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        # A dataclass with slots is created twice, the second time without the arguments of its header.
        if kind is not None:
            cls.kind = kind
