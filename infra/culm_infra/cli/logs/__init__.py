"""`culm logs`: `group` names its commands: `entries`, `peers`, `blocks`, `index`, `repair`.

`output` shows an entry. `job_section`: settings of the jobs of logs; `job_settings`: builds what each is run
with.
"""
