"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

`channel` is the door (`settings` and `events` are what passes it); inside, over the record of its
`channel_state`, `receive` and `send` take and make messages. `wire/`: messages and bytes. `frames/`: what an
edge and a client say to each other. `bloom/`: the filters, byte for byte. `delivery/`: received messages
until the application has them. `acks/`: whether others have ours. `sync/` and `repair/`: catching up.
`state/`: restarts. `timing`: what is due when, and every draw. Errors in `errors`.
"""
