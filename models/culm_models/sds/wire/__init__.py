"""Messages and their bytes, in three profiles (SDS, "messages").

`messages` (and what differs between the deployed dialects), `codec` (bytes and messages, over `fields`).
"""
