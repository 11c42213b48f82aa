"""Channels that somebody at this edge has joined.

- `joined`: all of them, and what happens in them; `members`: who is in one; `join`: the way in.
- `heads`: their trailing edge; `owners`: whose an id is.
"""
