"""The demo of Chotki: replicas at two edges over TCP, TLS and QUIC, and one that a Go replica recorded.

- ``edits``: who stands where, what a class has, and changes of every type, drawn from a seed.
- ``size``: how large it is.
- ``cast``: the replicas on stage, which call again whenever a connection has ended, the recorded one, and
  what one edge shows over TLS.
- ``run``: the story, chapter by chapter, to the verdict.
- ``verdict``: every store and vector compared, and the counters with what was added to them.
- ``data``: what the Go replica said.
"""
