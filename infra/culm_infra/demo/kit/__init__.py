"""The base of every demo; a demo itself contains only its story.

- ``size``: options of every demo.
- ``stage``: the folder, Kafka with topics, processes, and waiting while anything changes.
- ``processes``: a ``culm`` command as a separate process, and the descendants of a process.
- ``report``: figures of a scene with their rules; all scenes, for programs and for a terminal.
"""
