"""What was received, until the application has it (SDS, "receiving", "delivery").

`delivery` over the `log` (causal order, and what has left it), `waiting` (what waits for its dependencies,
or is far ahead of the time), `missing` (what is asked for).
"""
