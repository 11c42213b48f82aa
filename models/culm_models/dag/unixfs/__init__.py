"""UnixFS (reference 3.6): files and directories as blocks, with the same CIDs as in other tools.

`importing`: writing files and directories by a named profile. `message`: the content of a node. `files`:
reading a file or a range of it, and the blocks that hold it. `directories`: reading names, in one node or in
many.
"""
