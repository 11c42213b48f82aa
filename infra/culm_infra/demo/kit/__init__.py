"""What every demo stands on.

- ``broker``: the Kafka that it plays on, with its topics.
- ``processes``: the streaming jobs and the connectors as processes of their own.
- ``process_tree``: what runs below a process.
- ``figures``: what a scene shows and demands, and as a table.
- ``waiting``: for what is to be shown, with a limit.
- ``tables``: those of a report.
- ``percentile``: a percentile of measured values, and of none.
"""
