"""The HTTP door of section 9: shards in parts, nodes, publishes, a trustless gateway, what is published.

`server`: `serve_http`, a door on a socket, whose connections `sockets` counts; `app`: the same as an ASGI
application; `settings`. `routes`: the table of what is answered, by the handlers in `answers/`; `openapi`:
its document. `door`: what all handlers share; `access`: who may; `clients`: who asks, and budgets; `bodies`,
bounded as they are read; `problems`: what is wrong.
"""
