"""Bamboo Point-2-Point as a peer to embed: logs in a folder, over QUIC, TCP and TLS.

- `peer`: `BambooPeer`, a folder and its connections; `remote_peer`: one connection; `session`: its driver
- `step_effects`: the commit of a step, and its effects on quotas, connections and listeners
- `interest`: the wanted part of a log and its proposals; `following`: asks the connected peers for it
- `author`: signing entries; `bundle`: logs as a file; `proof`: one entry by its certificate pool
- `captured`: decodes the captured bytes of a connection
- `channels/`: two channels over each transport; `dial`: calling and accepting peers; `store/`: the folder
- `policy/`: who may read and write, what is followed, how much is kept
- `protocol`, `edge/`: the peers of a connector, with Kafka behind them
- `signatures`: verification on all cores; `settings`; `errors`
"""
