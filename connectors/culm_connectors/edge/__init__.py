"""Infrastructure around every protocol at the edge; it does not depend on any of them.

- `protocol`: the interface between a protocol and a connector. `doors`: listening addresses of protocols.
- `opening`: opens protocols, with the services that they share, and opens them again after a store failed.
- `access`: the rights of each principal, from a file. `keyfile`: a private key.
- `budgets`: limits on one principal. `serving`: open connections, and how a connection ends. `draining`: the
end of the service before the process ends.
- `fair_turns`: threads, and event loops, that work for callers in fair turns. `pump`: reads and writes a
connection whose state machine consumes and produces bytes.
- `feed`: follows topics into a protocol's store. `intake`: produces what peers sent, and keeps it in memory
until then.
- `metrics`, `health`: answers to Prometheus and probes. `protocol_metrics`: metrics that every protocol has,
in shared families. `status`: the document of the status socket.
"""
