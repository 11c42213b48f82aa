"""The policy of a folder: the peers that may read and write its logs, the followed logs, and retention.

- `document`: the rules as a file, `policy.toml`, with patterns for logs
- `sources`: chooses the peer that sends a log, and its successor
- `enforcement`: applies the rules: answers to proposals, quotas; `retention`: drops payloads
"""
