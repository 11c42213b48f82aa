"""Messages and their bytes, in three profiles (SDS, "messages").

`messages`, `profiles` (what differs between the deployed dialects), `codec` (bytes and messages, over
`decoder`, `entry_reader`, `entry_codec`, `field_tags` and `protobuf`), `message_ids`. Errors in `errors`.
"""
