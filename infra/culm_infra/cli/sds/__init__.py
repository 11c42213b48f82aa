"""`culm sds`: `group` names its commands, one module each, or what several of them print and share.

- `join`, `send`, `tail`, `status`, `fetch`, `transfer`, `reset_clock`: commands; `demo` is `culm demo sds`.
- `channel`, `participation`: what they take part with. `view`, `lines`: how a channel is shown.
- `job_settings`: what the jobs sds and sds-index are told of the settings.
"""
