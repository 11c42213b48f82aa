"""Channels of SDS under faults.

`scenario` says what a channel is like, `node` is a driver around one `Channel` with a clock and a disk,
`witness` checks all that it reports, `simulator` runs many of them to their end. `network` measures traffic.
"""
