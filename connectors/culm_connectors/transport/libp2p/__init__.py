"""libp2p over QUIC, as the p2panda node aquadoggo uses it, behind the transport's interface.

- `connection`: `serve_libp2p`, `dial_libp2p`, the driver's connection and the identify answer
- `streams`: streams after their negotiation
- `certificate`: libp2p's TLS certificate; `host_key`: host keys and peer ids; `multiaddr`: addresses
- `multistream`: agreement on a stream's protocol
- `wire`: varints, base58, protobuf, DER; `errors`
"""
