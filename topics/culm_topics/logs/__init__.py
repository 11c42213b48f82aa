"""The topics of replicated logs.

- `records/`: their keys and values. `consumer/`: `LogConsumer`, the reader for programs.
- `blocks`: `blocks` and `block-vectors` as they stand; `block_lag`: how a peer stands to the logs by them.
- `version_vectors`: who holds what, as it stands.
- `payload_chunks`: payloads in chunks, cut and put together; `unfinished_payloads`: many at a time, bounded.
- `payload_reader`: `PayloadReader`, the whole payloads of `payloads` for programs.
- `catalogue`: these topics as data.
"""
