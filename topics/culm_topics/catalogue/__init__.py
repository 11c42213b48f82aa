"""What runs on Kafka, as data: two tables that everything else reads.

- `registry`: the tables. Each room keeps its own lists in its `catalogue`; here they stand one behind the
  other.
- `topics`: every topic. Settings, creation, checking, access rights and docs/topics.md follow from it.
- `jobs`: every streaming job, the topics it reads and writes, and what to load to run it.
"""
