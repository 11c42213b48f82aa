"""The base of what the machines of the protocols report to their drivers."""

from typing import Any, ClassVar


class ReportedEvent:
    """An event. A class below it names its stable kind: `class Sent(Event, kind="sent")`."""

    __slots__ = ()

    kind: ClassVar[str] = "event"

    def __init_subclass__(cls, *, kind: str | None = None, **further: Any) -> None:
        super().__init_subclass__(**further)
        # A dataclass with slots is made twice, the second time without the arguments of its header.
        if kind is not None:
            cls.kind = kind
