"""Links to aquadoggo, the p2panda node: what its dialect needs beside the transport (`libp2p`).

- `links`: a second driver beside the connector's own, over the same index and the same topics
- `document_order`: entries in the order in which a node can take them
- `operation_order`, `deletion`: the same for one document, and for one that somebody has deleted
- `refusals`: entries that a node refuses
"""
