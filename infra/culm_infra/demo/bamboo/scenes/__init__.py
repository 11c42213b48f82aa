"""The scenes of the demo, each a function of the stage that fills in figures.

- ``long_log``: two entries of a long log, proven by their pools; entries first, and their payloads later.
- ``unverified``: complementary parts cross in one request; an apology, passed on.
- ``large_payload``: SIGKILL and offset, beside entries; ``live``: open ranges; ``credit``: waiting proposals.
- ``failover``: a source falls silent; ``small_device``: bounded memory.
- ``two_edges``: over Kafka, whole and sparse.
"""
