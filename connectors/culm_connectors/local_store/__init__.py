"""Local state of the edge, filled from topics: what the index of logs and stores of protocols have in common.

| module | what it holds |
|---|---|
| folder_lock | one process at a time over a folder |
| lmdb_file | the file: owned by one process, opened with doubt, grown when full, its errors translated |
| long_read | a read transaction that outlives one call |
| opening | trust, or drop and start anew; the mark of a store that was closed |
| sizes | with how large a file it begins, and how large it may get |
| writer | the one writing thread, for programs on an event loop |
| errors | what can go wrong |

All that is in lmdb; and in SQLite, for the folders of protocols whose edges keep files, too:

| module | what it holds |
|---|---|
| sqlite_file | a connection, which is closed if opening the store fails |
| topic_offsets | origin and offsets of topics, in the database of what they brought |
| store_guard | a store that cannot be written or is damaged is recognised, and worked on no more |
| refilled_folder | opening such a folder: trust, refuse, or drop and start anew |
"""
