"""Blocks and their names: CIDs, hashes, and the codecs in which blocks link to others.

`varint`, `multibase`: encodings of numbers and bytes. `cid`: content identifiers, ordered by text.
`multihash`: checks that a block matches its CID. `dag_cbor`: the strict codec, which decides if
`fast_dag_cbor` and `common_nodes` cannot; `dag_json`: values as JSON; `dag_pb`: named links, with the subset
of `protobuf` that they need.
"""
