"""``culm connector status`` and ``culm job status``: what runs on this machine, from its status sockets.

`connector`, `job`: the commands and their text. `text`: what both texts share. `watch`: `--watch`.
"""
