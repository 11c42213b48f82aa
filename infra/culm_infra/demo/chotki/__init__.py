"""The demo of Chotki: replicas at two edges over TCP, TLS and QUIC, and one that a Go replica recorded.

- ``plan``: who stands where, and what a class has.
- ``edits``: changes of every type, drawn from a seed.
- ``certificate``: what one edge shows over TLS.
- ``size``: how large it is.
- ``recording``: the recorded replica, which says its bytes again and keeps what it hears.
- ``cast``: the replicas on stage, which call again whenever a connection has ended.
- ``run``: the story, chapter by chapter, to the verdict.
- ``verdict``: every store and vector compared, and the counters with what was added to them.
- ``data``: what the Go replica said.
"""
