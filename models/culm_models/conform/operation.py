"""An operation of the line protocol, and the state machines that operations open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from culm_models.conform.arguments import Arguments
from culm_models.errors import ModelError

T = TypeVar("T")
_MACHINES_MAX = 100_000


class MachineError(ModelError, code="conform.machine"):
    """A machine's name is unknown or taken, or too many machines are open."""


@dataclass(slots=True)
class Machines:
    """The open state machines by kind and name."""

    _open: dict[tuple[str, str], Any] = field(default_factory=dict)

    def put(self, kind: str, name: str, machine: Any) -> None:
        """Store a machine under a free name."""
        if (kind, name) in self._open:
            raise MachineError(f"{kind} {name!r} is open already")
        if len(self._open) >= _MACHINES_MAX:
            raise MachineError(f"{_MACHINES_MAX} machines are open already")
        self._open[kind, name] = machine

    def get(self, kind: str, name: str) -> Any:
        """Return the machine with this name."""
        try:
            return self._open[kind, name]
        except KeyError:
            raise MachineError(f"no {kind} is open under the name {name!r}") from None

    def close(self, kind: str, name: str) -> None:
        """Delete a machine."""
        self.get(kind, name)
        del self._open[kind, name]

    def close_all(self, name: str) -> None:
        """Delete the machines with this name, of any kind; there must be at least one."""
        kinds = [kind for kind, taken in self._open if taken == name]
        if not kinds:
            raise MachineError(f"nothing is open under the name {name!r}")
        for kind in kinds:
            self.close(kind, name)


class MachineKind(Generic[T]):
    """The machines of one kind; an operation's argument ``name`` names its machine."""

    def __init__(self, name: str) -> None:
        self._name = name

    def put(self, machines: Machines, arguments: Arguments, machine: T) -> None:
        """Store a machine under the operation's name."""
        machines.put(self._name, arguments.text("name"), machine)

    def get(self, machines: Machines, arguments: Arguments) -> T:
        """Return the machine that an operation names."""
        machine: T = machines.get(self._name, arguments.text("name"))
        return machine

    def close(self, machines: Machines, arguments: Arguments) -> dict[str, Any]:
        """Delete the machine that an operation names; the ``close`` operation of this kind."""
        machines.close(self._name, arguments.text("name"))
        return {}


@dataclass(frozen=True, slots=True)
class ConformOperation:
    """One operation: its name, its arguments and answer in words, and its function."""

    name: str
    arguments: str
    answer: str
    run: Callable[[Machines, Arguments], dict[str, Any]]
