"""``culm chotki``: classes and objects of Chotki, and how its replicas stand.

- `group`: the commands. `objects/`: what is written and read of objects. `operations/`: `status`, `verify`
  and the like. What reads the state shares `reading`; `completion` is what the shell completes.
- `edge`: `listen`, `connect` and `tap`, an edge that speaks with replicas. `demo`: `culm demo chotki`.
- `job_settings`: builds what the job chotki is run with.
"""
