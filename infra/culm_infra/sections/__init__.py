"""Sections of the settings file that a job or the console adds to the tree in `settings`.

- `log_jobs`: `[job.version_vectors]`, `[job.blocks]` and `[job.coverage]`
- `sds_job`: `[job.sds]`; `dag_job`: `[job.dag]`; `p2panda_documents_job`:
  `[job.documents]`
- `console`: `[console]`
"""
