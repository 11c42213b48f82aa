"""Sessions on a link, and what is said around them (p2panda replication 1 and 2).

A `link` is the protocol with one remote: a `session` is the machine of one exchange, `table` holds those of
a link, and what the links of one peer share, `lifecycle` begins and ends them, `announcement` is the
greeting. `requests`: what serves where we want something, what waits for our announcement; `auto_sync`:
sessions begun by themselves. `remote_heights` is what a remote holds, `outbox` what goes out to it, and which
logs it is not sent in full.
"""
