"""Records of `rejected`, for `culm rejected` and the console.

- `records`: a record with its place and its origin.
- `decoded`: decodes refused bytes with the models of their protocol.
"""
