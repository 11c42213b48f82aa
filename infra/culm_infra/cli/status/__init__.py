"""``culm connector status`` and ``culm job status``: what runs on this machine, from its status sockets.

`connector`, `job`: the commands and their text. `drain`: ``culm connector drain``, which sends a signal and
follows the status. `text`: what these texts share. `watch`: `--watch`.
"""
