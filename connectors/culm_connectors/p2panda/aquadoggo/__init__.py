"""Links to aquadoggo, the p2panda node: the parts of its dialect other than the transport (`libp2p`).

- `links`: a second driver beside the connector's own, over the same index and the same topics
- `document_order`: entries in the order in which a node can take them
- `operation_order`, `deletion`: the order of one document's entries, and of a deleted document's entries
- `refusals`: entries that a node refuses
"""
