"""`culm p2panda`: `group` names its commands; `peer` is the reference peer, `peer_home` its folder.

`demo` is `culm demo`.
"""
