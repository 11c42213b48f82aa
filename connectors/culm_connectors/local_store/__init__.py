"""Local state of the edge in lmdb: what the index of logs and the stores of protocols have in common.

| module | what it holds |
|---|---|
| lmdb_file | the file: owned by one process, opened with doubt, grown when full, its errors translated |
| long_read | a read transaction that outlives one call |
| opening | trust, or drop and start anew; the mark of a store that was closed |
| writer | the one writing thread, for programs on an event loop |
| errors | what can go wrong |
"""
