"""UnixFS (reference 3.6): files and directories as blocks, with the CIDs that other tools give them.

`importing`: writing both by a named profile. `message`: what stands in a node. `files`: the bytes of a file,
or a range of them, and the blocks that hold it. `directories`: names, in one node or over many.
"""
