"""Channels of SDS under faults.

`scenario` describes a channel. `node` is a driver around one `Channel` with a clock and a disk. `witness`
checks everything that the channel reports. `simulator` runs many of them to their end. `network` measures
traffic.
"""
