"""The topics that only p2panda has. Its entries go through the topics of replicated logs.

- `catalogue`: the description of the topics.
- `announcements`: the schemas that each peer wants to replicate.
- `documents/`: the present state of documents.
"""
