"""Processes that tests start, and waiting for what they do.

- `groups`: child processes that do not outlive their test.
- `waiting`: waiting until something is so, with a deadline.
- `dying_edge`: `culm`, which kills itself at a named point.
- `npm_driver`: a JavaScript driver as a process, installed once.
- `optimised`: a pytest plugin that compiles the packages as `python -O` does.
- `full_disk`: disks without space, and damaged files.
- `own_machine`: pasted commands whose `culm` keeps everything in one folder.
- `argument_fuzz`: command lines of `culm`, drawn at random.
"""
