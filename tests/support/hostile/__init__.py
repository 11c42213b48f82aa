"""Hostile remotes of every protocol, for tests and for loads.

- `attacks`: what every hostile remote may send.
- `remote`: a remote that sends any bytes over a real connection.
- `source_address`: calls from several addresses of this machine.
- `attacker`: one attack on one connector, as a process.
- `honest_pair`: members that publish and receive beside an attack; `honest_pairs`: one of each protocol,
those of DAGs in `honest_dag_pairs`.
- `bamboo`, `bymux`, `chotki`, `dag`, `http`, `quic`, `sds`: the attacks on one protocol or transport.
"""
