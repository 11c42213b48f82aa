"""SDS (Scalable Data Sync), free of I/O: reliable broadcast in channels, in three wire profiles.

`channel` is the interface, with `settings` as input and `events` as output. Behind it, on the state in
`channel_state`, `receive` and `send` process and create messages. `wire/`: messages and bytes. `frames/`: the
protocol between an edge and a client. `bloom/`: the filters, byte for byte. `delivery/`: received messages
until the application has them. `acks/`: acknowledgements of sent messages. `sync/` and `repair/`: catch-up.
`state/`: restarts. `timing`: due times and random draws. `errors`: all errors.
"""
