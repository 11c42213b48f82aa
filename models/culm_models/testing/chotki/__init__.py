"""Trees of Chotki replicas under faults.

`node` is a replica whose user changes objects. `simulator` describes a run, joins replicas by links that
break, and checks that in the end all hold the same state, which contains every change ever made.
"""
