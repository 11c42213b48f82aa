"""Durable storage of logs in a folder.

- `folder_store`: the `BambooStore` of the models over a folder
- `kept_logs`: an index of the logs in memory
- `payloads`: the bytes of payloads, and batches of entries with their payloads
- `spool_shares`: unverified bytes by principal and address; `spool_capacity`: waits for it, drops old parts
- `tables`: the database, its format and its flavour; `runs`: held items as runs of sequence numbers
"""
