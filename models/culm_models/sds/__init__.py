"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

On the wire: `messages`, `profiles` (what differs between the deployed dialects), `codec` (bytes and
messages, over `decoder`, `entry_reader`, `entry_codec`, `field_tags` and `protobuf`), `bloom` (the filters,
byte for byte, and the map of their modules).
The machine: `channel` is the door (`settings`, `events`, `output`, `status` are what passes it); inside, over
the record of its `parts`, `hearing` and `speaking` take and make messages and `review` their
acknowledgements. What it holds: `delivery` over `log`, `known`, `waiting`, `missing` and `quarantine`;
`outgoing` over `acknowledgement`; `sync_schedule`; `repair`; `wires`. Every draw is in `draws`. Kept over a
restart by `journal` and `snapshot`. Errors: `errors` of bytes, `channel_errors` of a channel.
"""
