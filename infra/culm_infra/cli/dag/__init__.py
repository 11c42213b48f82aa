"""``culm dag``: files and directories as DAGs in a folder, published and exchanged with other folders.

- `group` names the commands; `folder` has their common options and the form of what people type
- `put`, `get`: files and directories in and out; `trees` reads directories a file at a time, `restoring`
  writes them
- `publishing`: publish, delegate, revoke; `joining`: join
- `looking`: status, resolve, log; `dropping`: drop, collect; `bundle`: export, import
- `exchange`: sync, serve; `demo`: culm demo dag
- `job_settings`: what the job dag is told of the settings
"""
