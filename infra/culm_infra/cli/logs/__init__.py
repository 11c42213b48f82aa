"""`culm logs`: `group` names its commands: `entries`, `peers`, `blocks`, `index`; `output` shows an entry.

`job_section`: settings of the jobs of logs; `job_settings`: builds what each of them is run with.
"""
