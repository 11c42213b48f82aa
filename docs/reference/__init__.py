"""Pages of the documentation that are rendered from the code.

`commands` renders every command of the command line, `metrics` every metric family, and `error_codes` every
stable code. `python -m docs.reference` writes the pages; tests compare them.
"""
