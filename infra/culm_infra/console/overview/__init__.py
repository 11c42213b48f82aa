"""The overview of the console: edges, jobs and topics, polled by one collector for all browsers.

- ``targets``: the connectors and jobs to show, from settings or from the status sockets of this machine.
- ``fetch``: bounded requests to targets. ``values``: checks of values that others wrote.
- ``reading``: a reading of a target. ``status_document`` and ``metrics_text`` make one of an answer.
- ``rates``: rates from totals, and whether a lag grows.
- ``target_state``: a target over time, with severity, rates and the time of its latest change.
- ``topics``: offsets and rights of all topics.
- ``collector``: polls each target on its own, and publishes the overview.
- ``snapshots``: the latest overview as JSON.
"""
