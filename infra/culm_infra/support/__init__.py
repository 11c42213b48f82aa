"""Archive for those who look for the cause of a problem: what runs here, and how, without secrets.

- ``bundle``: the archive, and the list of parts that are missing.
- ``documents``: settings, status documents, metrics, logs, topics.
- ``redaction``: removal of secrets from every text.
"""
