"""What every demo stands on: a demo itself holds its story alone.

- ``size``: options that say how large it is.
- ``stage``: its folder, Kafka with topics, processes, and waiting while anything changes.
- ``processes``: a ``culm`` command as a process of its own, and what runs below a process.
- ``report``: what a scene shows and demands; all scenes, for programs and for a terminal.
"""
