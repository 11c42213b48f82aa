"""`culm p2panda`: `group` names its commands; `peer` is the reference peer, `peer_home` its folder,
`peer_section` its settings.

`demo` is `culm demo`.
"""
