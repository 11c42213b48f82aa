"""What the two sides of an SDS edge connection say to each other (docs/sds.md, "The edge protocol").

- `messages`: the frames; `codec`: their bytes; `errors`: what is refused.
"""
