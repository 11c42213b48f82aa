"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

On the wire: `messages`, `profiles` (what differs between the deployed dialects), `codec` (bytes and
messages, above `entry_codec` and `protobuf`), `bloom` with `farmhash` and `bloom_vectors` (the filters,
byte for byte).
The machine: `channel` with its `settings` and `events`, over `outgoing`, `acknowledgement`,
`sync_schedule`, `repair` and `draws`. Errors share the base in `errors`.
"""
