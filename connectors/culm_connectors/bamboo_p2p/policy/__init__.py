"""What an owner decides: who may read and write which logs, what is followed, and how much is kept.

- `document`: the rules as a file, `policy.toml`; `log_pattern`: which logs a rule is about
- `answers`: what is said to a proposal; `quota`: how much a peer may bring; `retention`: what is dropped
- `sources`: which of several peers sends a log, and who takes over
- `enforcement`: all of them, applied to connections
"""
