"""What a simulation raises where it finds a fault."""


class InvariantError(AssertionError):
    """Something that must always hold does not."""


class SimulationError(AssertionError):
    """A run broke an invariant; the message names its seed and the last actions."""
