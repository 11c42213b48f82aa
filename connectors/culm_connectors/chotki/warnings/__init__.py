"""What is not as it should be and refuses nothing (reference 4.6, 9.2 rules 3 and 9, 10), and who is told.

- `packet_ids`: what a packet is that comes: new, late, a repeat, another one under a known id.
- `gap_watch`: what a connection has brought and what does not count.
- `unique_watch`: values that a Go replica would refuse a second time.
- `session_reports`: lines of `chotki.sessions`, counts by code, refused bytes.
"""
