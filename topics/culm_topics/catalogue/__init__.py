"""What runs on Kafka, as data: two tables that everything else reads.

- `topics`: every topic. Settings, creation, checking, access rights and docs/topics.md follow from it. Each
  room keeps its own list in its `catalogue`; here they stand one behind the other.
- `jobs`: every streaming job, the topics it reads and writes, and what to load to run it.
- `spec`: what is said of a topic, and the topic properties of each clean-up.
"""
