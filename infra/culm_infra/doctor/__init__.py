"""Checks of an installation, each with a remedy; none changes anything.

Only the check of Kafka creates a topic, which it deletes again.

- ``examination``: all checks in their order. ``finding``: the result of a check.
- ``machine``: Python, Java, the jars, ports and disk. ``configuration``: the settings.
- ``doors``: a QUIC and a TCP connection on this machine.
- ``cluster``: the configured Kafka, its clock and its topics. ``rights``: what each program may do there.
"""
