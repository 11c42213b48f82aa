"""What an owner decides: who may read and write which logs, what is followed, and how much is kept.

- `document`: the rules as a file, `policy.toml`, and which logs they are about
- `sources`: which of several peers sends a log, and who takes over
- `enforcement`: all of them, applied: what is said to a proposal, quotas, what is dropped
"""
