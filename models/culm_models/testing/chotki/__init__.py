"""Trees of Chotki replicas under faults.

`node` is a replica whose user changes things, `simulator` says what a run is like, joins them by links that
break, and checks that in the end all hold the same, which is all that was ever changed.
"""
