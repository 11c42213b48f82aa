"""The topics and jobs of Culm as data: two tables from which everything else follows.

- `registry`: the tables. Each protocol keeps its own lists in its `catalogue`; here they are concatenated.
- `topics`: every topic. Settings, creation, checking, access rights and docs/topics.md follow from it.
- `jobs`: every streaming job, the topics it reads and writes, and the attribute to load to run it.
"""
