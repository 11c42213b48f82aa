"""The protocol between the two sides of an SDS edge connection (docs/sds.md, "The edge protocol").

- `messages`: the frames; `codec`: their bytes.
"""
