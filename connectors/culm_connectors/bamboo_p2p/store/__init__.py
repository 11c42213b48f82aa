"""Logs in a folder, safe from a crash.

- `folder_store`: the `BambooStore` of the models over it; `kept_log`: what it knows without reading rows
- `payload_chunks`: the bytes of payloads; `tables`: the database, its format and its flavour
"""
