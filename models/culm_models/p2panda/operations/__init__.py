"""What an entry's payload says (p2panda, "operations", "documents").

`operation` (its fields, and the quick way to read the usual ones; an entry checked with its operation;
`reader` takes the unusual spellings; `schema` says whether its fields fit its schema), `identifiers` (names
of schemas and their order; document and view ids).
"""
