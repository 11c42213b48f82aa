"""Whether others have what was sent (SDS, "acknowledgement", "outgoing buffer").

`acknowledgement`: who has shown to have which message; `outgoing`: what waits for that, and its re-sends.
"""
