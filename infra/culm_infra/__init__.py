"""The command line, the local stack and the demos: how Culm runs.

Packages and modules:

- ``cli``: the ``culm`` command, one module or package per noun.
- ``stack``: a real single-node Kafka from its published jars, the jars themselves, and Java.
- ``console``: the web console.
- ``demo``: each protocol's main job, shown end to end on one machine.
- ``protocols``: tables of the commands and settings that each protocol adds.
- ``settings``: one settings tree for every command (flag, then environment, then ``culm.toml``).
- ``sections``: the branches that protocols, jobs and the console add to that tree.
- ``doctor``: checks of an installation, each with a remedy.
- ``support``: an archive that describes an installation, without secrets.
- ``running``: the status sockets of jobs on this machine. ``running_process``: one process by its socket.
- ``rejections``: records of refused data, decoded.
- ``round_trip``: one record through Kafka and back. ``patience``: waits that end when nothing changes.
- ``columns``: tables of commands and reports.
- ``errors``: the base of the errors of this package.

No protocol rule lives here.
"""
