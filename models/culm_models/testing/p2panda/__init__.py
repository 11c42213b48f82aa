"""Peers of p2panda under faults.

`logs` writes signed logs, `node` is a driver around one `Peer`, `liar` is the remote that does what it wants,
`network` joins them by links that break, `simulator` writes, breaks and lets it end, `scenario` says how the
peers are set and what they write, `checker` says what must hold of their stores.
"""

from culm_models.testing.p2panda.logs import LogWriter
from culm_models.testing.p2panda.simulator import Simulation, simulate

__all__ = ["LogWriter", "Simulation", "simulate"]
