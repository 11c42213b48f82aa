"""For whoever writes a peer, a driver or a store: what Culm's own tests are made of. No I/O, no clock.

`logs` writes signed logs, `link` is a connection in memory, `node` is a driver around one `Peer`,
`turmoil` puts many of them under faults chosen by a seed, `simulator` lets it end and looks at the outcome,
`scenario` says how the peers are set and what they write,
`liar` is the remote that does what it wants, `checker` says what must hold whatever happened.

The same for channels of SDS: `sds_scenario` says what a channel is like, `sds_node` is a driver around one
`Channel` with a clock and a disk, `sds_witness` checks all that it tells, `sds_simulator` runs it to its end.
"""

from culm_models.testing.checker import InvariantError
from culm_models.testing.link import MemoryLink
from culm_models.testing.logs import LogWriter
from culm_models.testing.sds_simulator import SdsSimulation, simulate_sds
from culm_models.testing.simulator import Simulation, SimulationError, simulate

__all__ = [
    "InvariantError",
    "LogWriter",
    "MemoryLink",
    "SdsSimulation",
    "Simulation",
    "SimulationError",
    "simulate",
    "simulate_sds",
]
