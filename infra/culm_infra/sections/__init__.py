"""Sections of the settings file that a job or the console adds to the tree in `settings`.

- `log_jobs`: `[job.version_vectors]`, `[job.blocks]`, `[job.coverage]` and `[job.documents]`
- `sds_job`: `[job.sds]`; `dag_job`: `[job.dag]`
- `console`: `[console]`
"""
