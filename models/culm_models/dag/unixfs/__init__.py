"""UnixFS (reference 3.6): files and directories as blocks, with the CIDs that other tools give them.

`importing`: files and directories by a named profile. Reading them is not here yet.
"""
