"""Channels of SDS under faults.

`scenario` says what a channel is like, `node` is a driver around one `Channel` with a clock and a disk,
`witness` checks all that it reports, `simulator` runs many of them to their end. `network` measures traffic.
"""

from culm_models.testing.sds.simulator import SdsSimulation, simulate_sds

__all__ = ["SdsSimulation", "simulate_sds"]
