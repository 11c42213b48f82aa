"""`culm demo`: `group` names the demos; `present` is what all of them do around their own story."""
