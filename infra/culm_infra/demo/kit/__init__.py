"""What every demo stands on.

- ``processes``: the streaming jobs and the connectors as processes of their own.
- ``percentile``: a percentile of measured values, and of none.
"""
