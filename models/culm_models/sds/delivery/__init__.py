"""What was received, until the application has it (SDS, "receiving", "delivery").

`delivery` over the `log` (causal order), `incoming_buffer` (what waits for its dependencies), `missing` (what
is asked for), `evicted_ids` (what was let go), `quarantine` (one id with several contents).
"""
