"""Errors that a simulation raises."""


class InvariantError(AssertionError):
    """An invariant is violated."""


class SimulationError(AssertionError):
    """A run violated an invariant; the message has its seed and the last actions."""
