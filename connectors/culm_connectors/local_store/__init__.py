"""Local state of the edge, filled from topics: the common part of the log index and the protocols' stores.

| module | content |
|---|---|
| folder_lock | lock that gives a folder to one process at a time |
| lmdb_file | the file: owned by one process, checked when opened, grown when full, its errors translated |
| long_read | a read transaction that outlives one call |
| opening | opens a store that can be trusted, or drops it and starts again; the mark of a closed store |
| sizes | initial and maximum size of the file |
| writer | the one writing thread, for programs on an event loop |
| errors | the errors of this package |

These modules are for lmdb. The folders of protocols whose edges keep files use SQLite, too:

| module | content |
|---|---|
| sqlite_file | a connection, which is closed if opening the store fails |
| topic_offsets | origin and offsets of topics, in the same database as their data |
| store_guard | detects a store that is damaged or cannot be written, and stops all work on it |
| refilled_folder | opens such a folder: it is trusted, refused, or set aside and filled again |
"""
