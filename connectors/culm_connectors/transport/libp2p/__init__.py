"""libp2p over QUIC, as the p2panda node aquadoggo speaks it, behind the transport's interface.

- `endpoints`: `serve_libp2p` and `dial_libp2p`; `connection`: what a driver sees; `streams`
- `certificate`: libp2p's TLS certificate; `host_key`: host keys and peer ids; `multiaddr`: addresses
- `multistream`: agreement on a stream's protocol; `identify`: who we are
- `wire`: varints, base58, protobuf, DER; `errors`
"""
