"""Blocks and their names: CIDs, hashes, and the codecs in which blocks link to others.

`varint`, `multibase`: numbers and spellings. `cid`: names of content, ordered by text. `multihash`: the proof
that a block is a CID's. `dag_cbor`: strict, and it decides where `fast_dag_cbor` or `common_nodes` did not
say yes; `dag_json`: values as JSON; `dag_pb`: links with names, over what it needs of `protobuf`.
"""
