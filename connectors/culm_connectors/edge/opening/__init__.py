"""Opening and closing of a connector's protocols.

- `shared_services`: services that several protocols use; each is open for as long as one of them is.
- `reopening`: closes one protocol whose store has failed, and opens it again.
"""
