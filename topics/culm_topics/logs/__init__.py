"""The topics of replicated logs.

- `records/`: their keys and values. `consumer/`: `LogConsumer`, the reader for programs.
- `blocks`: the present contents of `blocks` and `block-vectors`; `block_lag`: each peer's lag by them.
- `version_vectors`: the present version vectors of all peers.
- `payload_chunks`: cuts and assembles payloads; `unfinished_payloads`: many at a time, within limits.
- `payload_reader`: `PayloadReader`, the whole payloads of `payloads` for programs.
- `catalogue`: these topics as data.
"""
