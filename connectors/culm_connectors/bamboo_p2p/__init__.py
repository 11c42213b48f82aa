"""Bamboo Point-2-Point as a peer to embed: logs in a folder, over QUIC, TCP and TLS.

- `peer`: `BambooPeer`, one folder with its connections; `remote_peer`: one of them; `session` drives it
- `interest`: what is wanted of a log, and notified of it; `author`: signing entries; `bundle`: logs as a file
- `following`: what connected peers are asked for
- `proof`: one entry by its pool; `captured`: bytes of a connection, explained
- `channels/`: two channels over what networks offer; `dial`: calling and being called; `store/`: the folder
- `policy/`: who may read and write what, what is followed, how much is kept
- `protocol`, `edge/`: the same peers at the edge of a deployment, with Kafka behind them
- `signatures`: verified by all cores; `settings`; `errors`
"""
