"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

On the wire: `messages`, `profiles` (what differs between the deployed dialects), `codec` (bytes and
messages, over `decoder`, `entry_reader`, `entry_codec`, `field_tags` and `protobuf`), `bloom` (the filters,
byte for byte, and the map of their modules).
The machine: `channel` with its `settings` and `events`, over `outgoing`, `acknowledgement`,
`sync_schedule`, `repair` and `draws`. Errors share the base in `errors`.
"""
