"""Channels that have members at this edge.

- `joined`: all channels and the exchange in them; `members`: the members of one channel; `join`: joining.
- `heads`: their newest messages; `owners`: the owners of channels and participant ids.
"""
