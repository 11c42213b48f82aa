"""Links to aquadoggo, the p2panda node: what its dialect needs beside the transport (`libp2p`).

- `links`: a second driver beside the connector's own, over the same index and the same topics
- `document_order`: entries in the order in which a node can take them; `operation_order` of one document, `deletion`
  of a deleted one, `refusals` of what a node does not take
"""
