"""Documents: what the operations of several authors amount to (p2panda, "documents").

- ``document``: one document, kept up to date while operations arrive in any order: its fields and its views.
- ``graph``: the operations of a document, those that wait for others, and where the linear order may change.
- ``linear_order``: the order in which operations are applied.
- ``views``: a view whose operations are read by their ids. ``schemas``: the fields that a schema's documents
  define, and what does not match them. ``blobs``: files in pieces.
- ``typed``: documents with the types of their fields and their problems, for stores and for readers of Kafka.
- ``errors``: a class for each reason to refuse an operation.
"""
