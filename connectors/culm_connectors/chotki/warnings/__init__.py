"""Warnings: problems for which nothing is refused (reference 4.6, 9.2 rules 3 and 9, 10), and their reports.

- `packet_ids`: classifies packets: new, late, repeated, or another packet under a known id.
- `gap_watch`: finds produced entries of a connection that do not count.
- `unique_watch`: finds values that a Go replica would refuse in a second object.
- `session_reports`: lines of `chotki.sessions`, counts by code, refused bytes.
"""
