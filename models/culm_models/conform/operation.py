"""An operation of the line protocol, and the state machines that operations open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from culm_models.conform.arguments import Arguments
from culm_models.errors import ModelError

_MACHINES_MAX = 100_000


class MachineError(ModelError):
    """A machine's name is unknown, taken, or one too many are open."""

    code: ClassVar[str] = "conform.machine"


@dataclass(slots=True)
class Machines:
    """The state machines that are open, by kind and name."""

    _open: dict[tuple[str, str], Any] = field(default_factory=dict)

    def put(self, kind: str, name: str, machine: Any) -> None:
        """Keep a machine under a name that is free."""
        if (kind, name) in self._open:
            raise MachineError(f"{kind} {name!r} is open already")
        if len(self._open) >= _MACHINES_MAX:
            raise MachineError(f"{_MACHINES_MAX} machines are open already")
        self._open[kind, name] = machine

    def get(self, kind: str, name: str) -> Any:
        """The machine of a name."""
        try:
            return self._open[kind, name]
        except KeyError:
            raise MachineError(f"no {kind} is open under the name {name!r}") from None

    def close(self, kind: str, name: str) -> None:
        """Forget a machine."""
        self.get(kind, name)
        del self._open[kind, name]

    def close_all(self, name: str) -> None:
        """Forget the machines of a name, of whatever kind; at least one."""
        kinds = [kind for kind, taken in self._open if taken == name]
        if not kinds:
            raise MachineError(f"nothing is open under the name {name!r}")
        for kind in kinds:
            self.close(kind, name)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: what it is called, its arguments and answer in words, and what runs it."""

    name: str
    arguments: str
    answer: str
    run: Callable[[Machines, Arguments], dict[str, Any]]
