"""Acknowledgement of sent messages by others (SDS, "acknowledgement", "outgoing buffer").

`acknowledgement`: evidence of which participants have which message. `outgoing`: unacknowledged messages and
their re-sends.
"""
