"""Logs in a folder, safe from a crash.

- `folder_store`: the `BambooStore` of the models over it
- `kept_logs`: what it knows of its logs without reading rows
- `payloads`: their bytes, and entries in a row with theirs
- `spool_shares`: who brought parts that are not verified; `spool_room`: whether more may come, and which go
- `tables`: the database, its format and its flavour; `runs`: what is held, as runs of sequence numbers
"""
