"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

`channel` is the door (`settings`, `events`, `output`, `status` are what passes it); inside, over the record
of its `channel_state`, `receive` and `send` take and make messages. `wire/`: messages and bytes. `frames/`:
what an edge and a client say to each other. `bloom/`: the filters, byte for byte. `delivery/`: received
messages until the application has them. `acks/`: whether others have ours. `sync/` and `repair/`: catching
up. `state/`: restarts. `timer_queue` knows what is due, `namers` who named which ids; every draw is in
`draws`. Errors in `errors`, those of bytes in `wire.errors`.
"""
