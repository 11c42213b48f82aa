"""What every protocol at the edge has around it, and which knows none of them.

- `protocol`: what a protocol gives to a connector, and what it gets. `doors`: where it is spoken.
- `opening`: protocols are opened, with what they share, and opened again when a store has failed.
- `access`: what each principal may have, by a file. `keyfile`: a private key.
- `budgets`: what one principal may use. `serving`: who is connected, and how a connection ends.
- `fair_turns`: threads, and event loops, that work for callers in fair turns. `pump`: who reads and writes a
  connection whose machine is bytes in and bytes out.
- `feed`: topics are followed into a protocol's store. `intake`: what peers sent is produced,
  and where it waits in memory.
- `metrics`, `health`: what Prometheus and probes are told. `protocol_metrics`: what every protocol is
  measured by, in families that they share.
"""
