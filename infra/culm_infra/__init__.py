"""How Culm runs: the command line, the local stack, the demo.

Rooms:

- ``cli``: the ``culm`` command, one file a noun.
- ``stack``: a real single-node Kafka from its published jars, the jars themselves, and Java.
- ``demo``: the main job, shown end to end on one machine.
- ``protocols``: what each protocol adds to the command line and to the settings, as tables.
- ``settings``: one settings tree for every command (flag, then environment, then ``culm.toml``).
- ``sections``: what protocols and jobs add to that tree.
- ``doctor``: what is wrong with this machine, and what to do about it.
- ``round_trip``: one record through Kafka and back. ``patience``: waits that end when nothing changes.
- ``interrupts``: the signals that end a command. ``columns``: tables of commands and reports.
- ``errors``: the base of the errors of this package.

No protocol rule lives here.
"""
