"""Makes what `tests/fixtures` holds; see the README there for when.

- `stores`: the files of single stores, written by their own programs without a broker.
- `bamboo_folder`: a folder of Bamboo logs, and a bundle. `dag_folder`: a folder of DAGs.
- `connector`: the folder of a connector that ran on a real broker.
- `jobs`: the checkpoints of the streaming jobs, with the records of their topics.
- `job_checkpoint`: the checkpoint of one job, in which records wait; `chotki_job`, `documents_job`.
- `frozen`: packs, unpacks and compares fixtures.
- `lists`: metrics, topics, access rights.
"""
