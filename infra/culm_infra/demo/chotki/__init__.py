"""The demo of Chotki: replicas at two edges over TCP, TLS and QUIC, and a recording of a Go replica.

- ``edits``: the replicas and their edges, the fields of the class, and changes of every type from a seed.
- ``size``: the options of the demo.
- ``actors``: the replicas, which reconnect whenever a connection has ended, the recorded replica, and the
  certificate of one edge.
- ``run``: the story, chapter by chapter.
- ``convergence``: comparison of all stores and vectors, and of counters with their increments.
- ``data``: the recording of the Go replica.
"""
