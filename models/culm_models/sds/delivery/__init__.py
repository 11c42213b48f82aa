"""What was received, until the application has it (SDS, "receiving", "delivery").

`delivery` over the `log` (causal order, and what has left it), `incoming_buffer` (what waits for its
dependencies), `missing` (what is asked for), `quarantine` (what is far ahead of the time).
"""
