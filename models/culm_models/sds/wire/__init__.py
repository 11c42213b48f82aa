"""Messages and their bytes, in three profiles (SDS, "messages").

`messages` has the messages and the differences between the deployed dialects. `codec` converts between bytes
and messages, using `fields`.
"""
