"""Received messages until the application has them (SDS, "receiving", "delivery").

`delivery` uses the `log` (causal order, and the ids that left it), `waiting` (messages that wait for their
dependencies or are far ahead of the time) and `missing` (messages to fetch).
"""
