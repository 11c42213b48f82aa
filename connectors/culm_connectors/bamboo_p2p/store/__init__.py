"""Logs in a folder, safe from a crash.

- `folder_store`: the `BambooStore` of the models over it
- `kept_log`, `kept_logs`: what it knows of its logs without reading rows
- `payload_chunks`: the bytes of payloads; `whole_entries`: entries in a row with theirs
- `spool_shares`: who brought parts that are not verified; `spool_room`: whether more may come, and which go
- `connections_lock`: one process at a time holds connections over a folder
- `checkpoints`: the disk is waited for beside the commits
- `tables`: the database, its format and its flavour; `runs`: what is held, as runs of sequence numbers
"""
