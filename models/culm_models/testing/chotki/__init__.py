"""Trees of Chotki replicas under faults.

`scenario` says what a run is like, `node` is a replica whose user changes things, `simulator` joins them by
links that break, and checks that in the end all hold the same, which is all that was ever changed.
"""
