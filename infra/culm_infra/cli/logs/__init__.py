"""`culm logs`: `group` names its commands: `entries`, `peers`, `blocks`, `index`, `repair`.

`output` shows an entry. `job_settings`: what the jobs of logs are told of the settings.
"""
