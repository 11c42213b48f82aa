"""`culm demo`: `group` names the demos; `present` is the part that all of them share."""
