"""The HTTP door of section 9: shards in parts, nodes, publishes, a trustless gateway, what is published.

`server`: `serve_http`, a door on a socket, whose connections `sockets` counts; `app`: the same as an ASGI
application; `settings`, of which `limits` are all that bound a client. `routes`: the table of what is
answered, by the handlers in `answers/`; `openapi`: its document. `door`: what all handlers share; `access`:
who may; `client_budgets`: who asks, and the budgets of each; `places`: shares of what is done
at once; `event_sources`: what streams of events are fed from; `accept`: the media types that a client
accepts; `bodies`, bounded as they are read; `problems`: what is wrong.
"""
