"""Messages and their bytes, in three profiles (SDS, "messages").

`messages`, `profiles` (what differs between the deployed dialects), `codec` (bytes and messages, over
`entry_codec` and `protobuf`). Errors in `errors`.
"""
